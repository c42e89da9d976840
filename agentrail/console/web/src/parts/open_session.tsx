/** Opens a new session with one of the agents that the host has. */
import { useSignal, type Signal } from "@preact/signals";
import { useHost } from "../host/host_context";
import { address, go } from "../route";
import { act, type Telling } from "./action";

export function OpenSession({ telling }: { telling: Signal<Telling> }) {
  const host = useHost();
  const agents = useSignal<readonly string[] | null>(null);
  const agent = useSignal("");
  const name = useSignal("");
  const load = async () => {
    agents.value ??= await host.call("agents").then(
      (view) => view.items,
      () => [],
    );
  };
  const open = (event: Event) => {
    event.preventDefault();
    const chosen = agent.value || agents.value?.[0];
    const body = { ...(chosen && { agent: chosen }), ...(name.value && { session: name.value }) };
    void act(telling, "Opened", async () => go(address((await host.call("open_session", { body })).session)));
  };
  return (
    <details onToggle={(event) => event.currentTarget.open && void load()}>
      <summary>Open a session</summary>
      <form class="filter" onSubmit={open}>
        <label>
          Agent{" "}
          <select value={agent.value} onChange={(event) => (agent.value = event.currentTarget.value)}>
            {(agents.value ?? []).map((each) => (
              <option value={each}>{each}</option>
            ))}
          </select>
        </label>
        <label>
          Name, if it is to have one{" "}
          <input value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} />
        </label>
        <button class="main-action">Open</button>
      </form>
    </details>
  );
}

/** Begins a session with one of the agents that the host has. */
import { useSignal, type Signal } from "@preact/signals";
import { useHost } from "../host/host_context";
import { address, go } from "../route";
import { act, type Telling } from "./action";
import { Dialog } from "./dialog";
import { Icon } from "./icon";
import { Menu } from "./menu";

export function NewSession({ telling }: { telling: Signal<Telling> }) {
  const host = useHost();
  const isOpen = useSignal(false);
  const agents = useSignal<readonly string[] | null>(null);
  const agent = useSignal("");
  const name = useSignal("");
  const ask = async () => {
    isOpen.value = true;
    agents.value ??= await host.call("agents").then(
      (view) => view.items,
      () => [],
    );
  };
  const chosen = agent.value || agents.value?.[0] || "";
  const begin = (event: Event) => {
    event.preventDefault();
    const body = { ...(chosen && { agent: chosen }), ...(name.value && { session: name.value, title: name.value }) };
    void act(telling, "Begun", async () => go(address((await host.call("open_session", { body })).session)));
    isOpen.value = false;
  };
  return (
    <>
      <button type="button" class="main" onClick={() => void ask()}>
        <Icon name="plus" />
        New session
      </button>
      <Dialog title="New session" isOpen={isOpen}>
        <form class="stack" onSubmit={begin}>
          {(agents.value?.length ?? 0) > 1 && (
            <Menu
              label={`Agent: ${chosen}`}
              kind=""
              items={(agents.value ?? []).map((each) => ({ label: each, isChosen: each === chosen, act: () => (agent.value = each) }))}
            />
          )}
          <label>
            Name, if it is to have one <input value={name.value} autofocus onInput={(event) => (name.value = event.currentTarget.value)} />
          </label>
          <button class="main">Begin</button>
        </form>
      </Dialog>
    </>
  );
}

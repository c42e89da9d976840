/** The sessions that are stored, whether or not they run: page after page, by their ids. */
import { useSignal } from "@preact/signals";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { address } from "../route";
import { SILENT, Told, act, type Telling } from "./action";
import { Moment } from "./moment";
import { Plain } from "./plain";

export function StoredSessions({ isOpen }: { isOpen: boolean }) {
  const host = useHost();
  const items = useSignal<readonly View<"SessionView">[]>([]);
  const next = useSignal<string | null | undefined>(undefined);
  const owner = useSignal<"own" | "all">("own");
  const telling = useSignal<Telling>(SILENT);
  const load = async (whose: "own" | "all", after?: string) => {
    await act(telling, "", async () => {
      const query = { ...(whose === "all" && { owner: "*" }), ...(after !== undefined && { after }) };
      const page = await host.call("list_sessions", { query });
      items.value = after === undefined ? page.items : [...items.value, ...page.items];
      next.value = page.next;
    });
  };
  const choose = (whose: "own" | "all") => {
    owner.value = whose;
    void load(whose);
  };
  return (
    <details open={isOpen} onToggle={(event) => event.currentTarget.open && next.value === undefined && void load(owner.value)}>
      <summary>Stored sessions</summary>
      <p>
        <label>
          Whose{" "}
          <select value={owner.value} onChange={(event) => choose(event.currentTarget.value === "all" ? "all" : "own")}>
            <option value="own">mine</option>
            <option value="all">of all users</option>
          </select>
        </label>
      </p>
      <Told telling={telling} />
      <ul class="stored">
        {items.value.map((session) => (
          <li key={session.session}>
            <a href={address(session.session)}>
              <Plain text={session.title || session.session} />
            </a>{" "}
            <Plain text={session.agent} />, {session.ended ? "ended" : "active"} <Moment at={session.active} />,{" "}
            {session.records} records
            {session.problem && (
              <span class="bad">
                {" "}
                <Plain text={session.problem} />
              </span>
            )}
          </li>
        ))}
      </ul>
      {next.value && (
        <button type="button" onClick={() => void load(owner.value, next.value ?? undefined)}>
          Show more
        </button>
      )}
    </details>
  );
}

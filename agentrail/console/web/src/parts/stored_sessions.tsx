/** The sessions that are stored, whether or not they run, and those in which something was said: page after page, by their ids. */
import { useSignal } from "@preact/signals";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { address } from "../route";
import { SILENT, Told, act, type Telling } from "./action";
import { Choice } from "./choice";
import { Icon } from "./icon";
import { Moment } from "./moment";
import { Plain } from "./plain";

type Session = View<"SessionView">;

interface Wanted {
  readonly whose: "own" | "all";
  /** What was said in them; empty: anything. */
  readonly text: string;
}

export function StoredSessions({ isOpen }: { isOpen: boolean }) {
  const host = useHost();
  const items = useSignal<readonly Session[]>([]);
  const next = useSignal<string | null | undefined>(undefined);
  /** What the items are a list of. */
  const listed = useSignal<Wanted>({ whose: "own", text: "" });
  const text = useSignal("");
  const telling = useSignal<Telling>(SILENT);
  const load = async (wanted: Wanted, after?: string) => {
    listed.value = wanted;
    if (after === undefined) items.value = [];
    await act(telling, "", async () => {
      const query = {
        ...(wanted.whose === "all" && { owner: "*" }),
        ...(wanted.text && { text: wanted.text }),
        ...(after !== undefined && { after }),
      };
      const page = await host.call("list_sessions", { query });
      if (listed.value !== wanted) return; // something else was asked for meanwhile
      items.value = after === undefined ? page.items : [...items.value, ...page.items];
      next.value = page.next;
    });
  };
  const { whose, text: searched } = listed.value;
  return (
    <details class="card stored-card" open={isOpen} onToggle={(event) => event.currentTarget.open && next.value === undefined && void load(listed.value)}>
      <summary>Search the stored ones</summary>
      <div class="stored-body">
      <form
        class="filter"
        role="search"
        aria-label="In what was said"
        onSubmit={(event) => {
          event.preventDefault();
          void load({ whose, text: text.value.trim() });
        }}
      >
        <Choice
          label="Whose"
          value={whose}
          options={[
            ["own", "Mine"],
            ["all", "Of all users"],
          ]}
          choose={(next) => void load({ whose: next, text: searched })}
        />
        <label class="field">
          <Icon name="search" />
          <input
            type="search"
            dir="auto"
            aria-label="What was said"
            placeholder="What was said"
            value={text.value}
            maxLength={MOST_TEXT}
            onInput={(event) => (text.value = event.currentTarget.value)}
          />
        </label>
        <button>Search</button>
      </form>
      <Told telling={telling} />
      {searched && next.value !== undefined && (
        <p role="status" class="hint">
          {items.value.length === 1 ? "1 session has" : `${items.value.length} sessions have`} “<Plain text={searched} />”{next.value !== null && ", of those searched so far"}.
        </p>
      )}
      <ul class="stored">
        {items.value.map((session) => (
          <StoredSession key={session.session} session={session} />
        ))}
      </ul>
      {next.value && (
        <button type="button" onClick={() => void load(listed.value, next.value ?? undefined)}>
          {searched ? "Search in more sessions" : "Show more"}
        </button>
      )}
      </div>
    </details>
  );
}

/** The longest text that the host searches for. */
const MOST_TEXT = 200;

function StoredSession({ session }: { session: Session }) {
  const { passage } = session;
  return (
    <li>
      <a href={address(session.session)}>
        <Plain text={session.title || session.session} />
      </a>{" "}
      <span class="soft">
        <Plain text={session.agent} />, {session.ended ? "ended" : "active"} <Moment at={session.active} />, {session.records} records
      </span>
      {session.problem && (
        <span class="is-bad">
          {" "}
          <Plain text={session.problem} />
        </span>
      )}
      {passage && (
        <p class="passage">
          <a href={address(session.session, "event", passage.event)}>
            <Moment at={passage.at} />
          </a>{" "}
          <Plain text={passage.text} />
        </p>
      )}
    </li>
  );
}

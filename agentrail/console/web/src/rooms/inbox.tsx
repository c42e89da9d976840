/** Everything that waits for a person, oldest first: one looks, decides, and the next one is there. */
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { View } from "../host/interface";
import { Told, SILENT, type Telling } from "../parts/action";
import { DecisionKeys, PAUSE } from "../parts/decision_keys";
import { HeldCall } from "../parts/held_call";
import { Since, Until } from "../parts/moment";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { VirtualList } from "../parts/virtual_list";
import { address, place, replaceAddress } from "../route";
import { useRows } from "../store/rows";
import { useWaiting } from "../store/waiting";

type Held = View<"HeldView">;

const KEYS =
  "In the list: arrows choose, Enter goes to the decision; a approves once, l and then Enter always, e edits, r rejects, " +
  "or answers a question. A letter decides only by itself, half a second before and after other keys, and Enter half a second after another Enter; " +
  "if what it is about is folded or out of sight, Enter has to follow.";

/** Rows of the sessions that wait for a person, for their titles. */
const WAITING = { held: true, limit: 1_000 } as const;

/** Where the decision begins. */
const FIRST_CONTROL = ".held .actions button, .held input, .held textarea";

function nameOf(held: Held): string {
  return `${held.session}/${held.id}`;
}

function show(held: Held): void {
  replaceAddress(address(null, "inbox", held.session, held.id));
}

export default function Inbox() {
  const { view, problem } = useWaiting();
  const { rows } = useRows(WAITING);
  const titleOf = (id: string) => rows.value?.rows.get(id)?.title || id;
  const telling = useSignal<Telling>(SILENT);
  /** Names of what was decided here, which the host may still list for a moment. */
  const decided = useSignal<ReadonlySet<string>>(new Set());
  const items = useComputed(() =>
    (view.value?.items ?? [])
      .filter((held) => !decided.value.has(nameOf(held)))
      .sort((left, right) => left.since - right.since),
  );
  const box = useRef<HTMLDivElement>(null);
  const chosenAt = useRef(0);
  const [session, id] = place.value.rest;
  const wanted = session !== undefined && id !== undefined ? `${session}/${id}` : null;
  const found = items.value.findIndex((held) => nameOf(held) === wanted);
  // What was decided leaves the list: what has taken its place is next
  const at = found >= 0 ? found : Math.min(chosenAt.current, items.value.length - 1);
  const chosen = items.value[at];
  useEffect(() => {
    chosenAt.current = Math.max(at, 0);
  });
  const isUnread = useUnread(chosen && nameOf(chosen), found >= 0);
  useDecisionKeys(box);
  /** Whether a decision was taken: the keyboard goes on in the list as soon as the next one is shown. */
  const mustFocus = useRef(false);
  useLayoutEffect(() => {
    if (mustFocus.current) focusList(box.current);
    mustFocus.current = false;
  });

  if (problem.value) return <ProblemNote problem={problem.value} />;
  const isGone = wanted !== null && found < 0 && view.value !== null;
  return (
    <>
      <h1>Inbox</h1>
      <p id="inbox-keys" class="hint">
        {KEYS}
      </p>
      <Told telling={telling} />
      {isGone && chosenAt.current === 0 && <p role="status">What the address names does not wait any more.</p>}
      {view.value === null && <p role="status">Loading …</p>}
      {view.value !== null && chosen === undefined && <p>Nothing waits for a person.</p>}
      {chosen !== undefined && (
        <div class="inbox" ref={box}>
          <HeldList items={items.value} titleOf={titleOf} chosen={nameOf(chosen)} box={box} />
          <HeldCall
            key={nameOf(chosen)}
            held={chosen}
            title={titleOf(chosen.session)}
            isUnread={isUnread}
            telling={telling}
            decided={() => {
              decided.value = new Set([...decided.value, nameOf(chosen)]);
              mustFocus.current = true;
            }}
          />
        </div>
      )}
      {view.value?.next != null && <p>There are more than are shown here.</p>}
    </>
  );
}

/** Whether *name* is shown in the place of another, which nobody has chosen, for less than half a second. */
function useUnread(name: string | undefined, isChosen: boolean): boolean {
  const before = useRef<string | undefined>(undefined);
  const isUnread = useSignal(false);
  useLayoutEffect(() => {
    const replaces = before.current !== undefined && !isChosen;
    before.current = name ?? before.current;
    isUnread.value = replaces;
    if (!replaces) return undefined;
    const timer = setTimeout(() => (isUnread.value = false), PAUSE);
    return () => clearTimeout(timer);
  }, [name]);
  return isUnread.value;
}

interface HeldListProps {
  readonly items: readonly Held[];
  /** Gives the title of a session, or its id if it has none. */
  readonly titleOf: (session: string) => string;
  readonly chosen: string;
  readonly box: { current: HTMLElement | null };
}

function HeldList({ items, titleOf, chosen, box }: HeldListProps) {
  return (
    <VirtualList
      rows={items}
      label={`What waits for a person: ${items.length}, oldest first`}
      columns={["What", "Session", "For", "Expires"]}
      idOf={nameOf}
      chosen={chosen}
      choose={(name) => {
        const held = items.find((item) => nameOf(item) === name);
        if (held) show(held);
      }}
      open={() => box.current?.querySelector<HTMLElement>(FIRST_CONTROL)?.focus()}
      cells={(held) => [
        held.kind === "question" ? "a question" : <Plain text={held.tool} />,
        <Plain text={titleOf(held.session)} />,
        held.since ? <Since at={held.since} /> : "",
        held.expires_at === null ? "never" : <Until at={held.expires_at} />,
      ]}
    />
  );
}

/** Goes to the list, unless somebody writes in a field of what is shown now. */
function focusList(box: HTMLElement | null): void {
  if (document.activeElement?.matches(".held input, .held textarea")) return;
  box?.querySelector<HTMLElement>("[role=grid]")?.focus();
}

/** Takes all keys of the page, because a sentence may begin anywhere. */
function useDecisionKeys(box: { current: HTMLElement | null }): void {
  useEffect(() => {
    const keys = new DecisionKeys();
    const press = (event: KeyboardEvent) => box.current && keys.press(event, box.current);
    const release = (event: KeyboardEvent) => keys.release(event);
    addEventListener("keydown", press, true);
    addEventListener("keyup", release, true);
    const leave = () => keys.stop(); // what follows may be typed in another window
    addEventListener("blur", leave);
    return () => {
      keys.stop();
      removeEventListener("keydown", press, true);
      removeEventListener("keyup", release, true);
      removeEventListener("blur", leave);
    };
  }, []);
}

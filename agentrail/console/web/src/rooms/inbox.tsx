/** Everything that waits for a person, oldest first: one looks, decides, and the next one is there. */
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { View } from "../host/interface";
import { Told, SILENT, type Telling } from "../parts/action";
import { HeldCall } from "../parts/held_call";
import { Since, Until } from "../parts/moment";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { VirtualList } from "../parts/virtual_list";
import { address, place, replaceAddress } from "../route";
import { useRows } from "../store/rows";
import { useWaiting } from "../store/waiting";

type Held = View<"HeldView">;

const KEYS = "In the list: arrows choose, Enter goes to the decision; a approves once, l always, e edits, r rejects, or answers a question.";

/** Rows of the sessions that wait for a person, for their titles. */
const WAITING = { held: true, limit: 1_000 } as const;

/** Milliseconds for which what has taken the place of another cannot be decided: nobody can have read it. */
const UNREAD = 500;

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
  const items = useComputed(() => [...(view.value?.items ?? [])].sort((left, right) => left.since - right.since));
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
        <div class="inbox" ref={box} onKeyDown={(event) => press(event, box.current)}>
          <HeldList items={items.value} titleOf={titleOf} chosen={nameOf(chosen)} box={box} />
          <fieldset disabled={isUnread}>
            <HeldCall key={nameOf(chosen)} held={chosen} title={titleOf(chosen.session)} telling={telling} decided={() => focusList(box.current)} />
          </fieldset>
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
    const timer = setTimeout(() => (isUnread.value = false), UNREAD);
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

function focusList(box: HTMLElement | null): void {
  box?.querySelector<HTMLElement>("[role=grid]")?.focus();
}

/** Presses a button of the decision by its letter; only while the list has the focus, so that one can type elsewhere. */
function press(event: KeyboardEvent, box: HTMLElement | null): void {
  const inList = event.target instanceof HTMLElement && event.target.role === "grid";
  if (!inList || event.repeat || event.altKey || event.ctrlKey || event.metaKey || event.key.length !== 1) return;
  const button = box?.querySelector<HTMLElement>(`[aria-keyshortcuts="${CSS.escape(event.key)}"]`);
  if (!button) return;
  event.preventDefault();
  if (button instanceof HTMLButtonElement) button.click();
  else button.focus();
}


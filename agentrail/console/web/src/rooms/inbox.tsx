/** Everything that waits for a person, oldest first: one looks, decides, and the next one is there. */
import { signal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Told, SILENT, type Telling } from "../parts/action";
import { useDecisionKeys } from "../parts/decision_keys";
import { Empty } from "../parts/empty";
import { HeldCall, nameOf, type Decision, type Held } from "../parts/held_call";
import { Icon } from "../parts/icon";
import { Moment, moment, Since } from "../parts/moment";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { RecordIcon } from "../parts/record_icon";
import { Table, type Column } from "../parts/table";
import { address, place, replaceAddress } from "../route";
import { callTitle } from "../store/call_words";
import { useLedHere } from "../store/led_here";
import { useRows } from "../store/rows";
import { useWaiting } from "../store/waiting";

/** Rows of the sessions that wait for a person, for their titles. */
const WAITING = { held: true, limit: 1_000 } as const;

/** Where the decision begins. */
const FIRST_CONTROL = ".held-do :is(button, input, textarea)";

/** What was decided on this page, the last one first. */
const decisions = signal<readonly { readonly held: Held; readonly decision: Decision; readonly at: number }[]>([]);

function show(held: Held): void {
  replaceAddress(address(null, "inbox", held.session, held.id));
}

export default function Inbox() {
  const { view, problem } = useWaiting();
  const { rows } = useRows(WAITING);
  const sessionTitle = (id: string) => rows.value?.rows.get(id)?.title || id;
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
  /** Whether nothing was shown before it, whose place it could have taken under a hand that is about to click. */
  const hasShown = useRef(false);
  const isFirst = !hasShown.current;
  useEffect(() => {
    chosenAt.current = Math.max(at, 0);
    hasShown.current = chosen !== undefined;
  });
  useDecisionKeys(box);
  /** Whether a decision was taken: the keyboard goes on in the list as soon as the next one is shown. */
  const mustFocus = useRef(false);
  useLayoutEffect(() => {
    if (mustFocus.current) focusList(box.current);
    mustFocus.current = false;
  });

  const isGone = wanted !== null && found < 0 && view.value !== null;
  const waits = `${items.value.length}${view.value?.next == null ? "" : " and more"}`;
  return (
    <div class="room">
      <div class="room-head">
        <h1>Inbox</h1>
        {items.value.length > 0 && (
          <>
            <span class="soft small">{waits === "1" ? "1 waits for you" : `${waits} wait for you, oldest first`}</span>
            <span class="keys-here extra">
              <kbd>J</kbd> <kbd>K</kbd> next · <kbd>A</kbd> approve · <kbd>E</kbd> edit · <kbd>R</kbd> reject · <kbd>?</kbd> all keys
            </span>
          </>
        )}
      </div>
      {problem.value && <ProblemNote problem={problem.value} />}
      <Told telling={telling} />
      {isGone && chosenAt.current === 0 && <p role="status">What the address names does not wait any more.</p>}
      {view.value === null && !problem.value && <p role="status">Loading …</p>}
      {view.value !== null && chosen === undefined && <NothingWaits />}
      {chosen !== undefined && (
        <div class="inbox two" ref={box}>
          <div class="stay">
            <HeldList items={items.value} titleOf={sessionTitle} chosen={nameOf(chosen)} box={box} />
            <DecidedHere />
          </div>
          <div class="inbox-one">
            <HeldCall
              key={nameOf(chosen)}
              held={chosen}
              isChosen
              isAsked={found >= 0 || isFirst}
              telling={telling}
              decided={(decision) => {
                decisions.value = [{ held: chosen, decision, at: Date.now() }, ...decisions.value];
                decided.value = new Set([...decided.value, nameOf(chosen)]);
                mustFocus.current = true;
              }}
            />
            <LedHere held={chosen} title={sessionTitle(chosen.session)} />
            {chosen.kind === "approval" && <IfApproved held={chosen} />}
          </div>
        </div>
      )}
    </div>
  );
}

function NothingWaits() {
  const [last] = decisions.value;
  return (
    <>
      <Empty icon="inbox" title="Nobody waits for you">
        A call that a plugin holds, and each question of an agent, comes here.
        {last && ` The last one was decided at ${moment(last.at)}.`}
      </Empty>
      <DecidedHere />
    </>
  );
}

interface HeldListProps {
  readonly items: readonly Held[];
  /** Gives the title of a session, or its id if it has none. */
  readonly titleOf: (session: string) => string;
  readonly chosen: string;
  readonly box: { current: HTMLElement | null };
}

const COLUMNS: readonly Column[] = [{ title: "What waits" }];
/** Height of a row, in rem. */
const HEIGHT = 3.4;

function HeldList({ items, titleOf, chosen, box }: HeldListProps) {
  return (
    <section class="card held-list">
      <Table
        rows={items}
        label="What waits for you"
        columns={COLUMNS}
        hasHiddenHead
        height={HEIGHT}
        phoneHeight={HEIGHT}
        idOf={nameOf}
        chosen={chosen}
        choose={(name) => {
          const held = items.find((item) => nameOf(item) === name);
          if (held) show(held);
        }}
        open={() => box.current?.querySelector<HTMLElement>(FIRST_CONTROL)?.focus()}
        cells={(held) => [
          <span class="held-row">
            <span class="is-person">
              <Icon name={held.kind === "question" ? "question" : "person"} />
            </span>
            <span class="grow">
              <span class="strong cut">
                <Plain text={callTitle(held)} isCut />
              </span>
              <span class="held-session soft cut">
                <Plain text={titleOf(held.session)} isCut />
              </span>
            </span>
            {held.since > 0 && (
              <span class="when">
                <Since at={held.since} />
              </span>
            )}
          </span>,
        ]}
      />
    </section>
  );
}

const DECISION_WORDS: Readonly<Record<Decision, string>> = { approved: "", edited: " (edited)", rejected: " (rejected)", answered: " (answered)" };

function DecidedHere() {
  if (decisions.value.length === 0) return null;
  return (
    <details class="card" open>
      <summary>Decided here · {decisions.value.length}</summary>
      <ul class="rows">
        {decisions.value.map(({ held, decision, at }) => (
          <li key={nameOf(held)}>
            <span class={decision === "rejected" ? "is-bad" : "is-good"}>
              <Icon name={decision === "rejected" ? "cross" : "check"} />
            </span>
            <a class="over grow cut" href={address(held.session, "why", held.call_id)}>
              <Plain text={callTitle(held)} />
              {DECISION_WORDS[decision]}
            </a>
            <span class="when">
              <Moment at={at} />
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function LedHere({ held, title }: { held: Held; title: string }) {
  const steps = useLedHere(held.session, held.call_id);
  return (
    <section class="card" aria-label="What led here">
      <header>
        <h2>What led here</h2>
        <span class="soft small cut">
          <Plain text={title} />
          {title !== held.session && (
            <>
              {" "}
              <span class="id">
                <Plain text={held.session} />
              </span>
            </>
          )}
        </span>
        <a class="end small" href={address(held.session)}>
          Open the conversation
        </a>
      </header>
      {steps.length > 0 && (
        <ul class="rows">
          {steps.map(({ record, at, kind, sentence }) => (
            <li key={record}>
              <RecordIcon kind={kind} />
              <a class="over grow" href={address(held.session, "record", record)}>
                <Plain text={sentence} />
              </a>
              <span class="when">
                <Moment at={at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function IfApproved({ held }: { held: Held }) {
  return (
    <section class="card" aria-label="If you approve">
      <header>
        <h2>If you approve</h2>
      </header>
      <ul class="rows">
        <li>
          <Icon name="right" />
          <span>It runs once, with exactly these arguments; the plugins that were not asked yet are asked first.</span>
        </li>
        {held.family !== null && (
          <li>
            <Icon name="always" />
            <span>
              <b class="strong">Always</b> would let every{" "}
              <code>
                <Plain text={held.family} />
              </code>{" "}
              of this session pass. It asks you once more.
            </span>
          </li>
        )}
        <li>
          <Icon name="cross" />
          <span>Rejected, it is not made, and the model goes on with your reason.</span>
        </li>
      </ul>
    </section>
  );
}

/** Goes to the list, unless somebody writes in a field of what is shown now. */
function focusList(box: HTMLElement | null): void {
  if (document.activeElement?.matches(".held input, .held textarea")) return;
  box?.querySelector<HTMLElement>("[role=grid]")?.focus({ preventScroll: true });
}

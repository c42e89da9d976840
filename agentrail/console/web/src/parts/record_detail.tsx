/** One record, whole: what happened, what each plugin said, what changed; and what can be done from there. */
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { write } from "../host/exact_json";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { address, go } from "../route";
import { useAnswer } from "../store/answer";
import { happened, inWords, kindOf } from "../store/record_words";
import type { RecordView } from "../store/records";
import { act, ActionButton, SILENT, Told, type Telling } from "./action";
import { count, UNKNOWN } from "./amounts";
import { Folded } from "./folded";
import { Icon, type IconName } from "./icon";
import { JsonText } from "./json_text";
import { Moment } from "./moment";
import { Plain } from "./plain";
import { ProblemNote } from "./problem_note";
import { RecordIcon } from "./record_icon";
import { StateChanges } from "./state_changes";

interface RecordDetailProps {
  readonly session: string;
  readonly number: number;
  readonly head: number;
  readonly choose: (number: number) => void;
}

export function RecordDetail({ session, number, head, choose }: RecordDetailProps) {
  const answer = useAnswer("records", session, { record: number }).value;
  const telling = useSignal<Telling>(SILENT);
  const record = answer.value?.records[0];
  return (
    <section class="record card" aria-label={`Record ${number}`} aria-busy={answer.isLate}>
      <header>
        {record && <RecordIcon kind={kindOf(record)} />}
        <h2 class="grow">{record ? <Plain text={happened(record)} /> : "…"}</h2>
        <span class="record-steps">
          <button type="button" class="bare square slim" aria-label="Record before" disabled={number <= 1} onClick={() => choose(number - 1)}>
            <Icon name="left" />
          </button>
          <span class="tiny soft">
            {count(number)} of {count(head)}
          </span>
          <button type="button" class="bare square slim" aria-label="Record after" disabled={number >= head} onClick={() => choose(number + 1)}>
            <Icon name="right" />
          </button>
        </span>
      </header>
      <div class="record-body">
        {answer.problem && <ProblemNote problem={answer.problem} />}
        {record ? <Whole session={session} record={record} /> : answer.isLate && <p>Loading …</p>}
        <RecordActions session={session} number={number} record={record} telling={telling} />
      </div>
    </section>
  );
}

interface RecordActionsProps {
  readonly session: string;
  readonly number: number;
  readonly record: RecordView | undefined;
  readonly telling: Signal<Telling>;
}

function RecordActions({ session, number, record, telling }: RecordActionsProps) {
  const host = useHost();
  const fork = async () => {
    await act(telling, "Forked", async () => {
      const fork = await host.call("fork", { session, body: { at: number } });
      go(address(fork.session));
    });
  };
  return (
    <>
      <div class="actions">
        {record && callsOf(record).map((id) => <WhyLink session={session} about={id} what={`call ${id}`} />)}
        {record && turnsOf(record).map((turn) => <WhyLink session={session} about={turn} what={`turn ${turn}`} />)}
        <ActionButton kind="slim" act={fork}>
          <Icon name="fork" />
          Fork here
        </ActionButton>
        <span class="end tiny soft extra">
          <kbd>J</kbd> <kbd>K</kbd> step
        </span>
      </div>
      <Told telling={telling} />
    </>
  );
}

function WhyLink({ session, about, what }: { session: string; about: string | number; what: string }) {
  return (
    <a class="button slim" href={address(session, "why", about)}>
      Why: <Plain text={what} />
    </a>
  );
}

/** An event of a record, as much of it as is looked at here. */
interface StoredEvent {
  readonly turn?: unknown;
  readonly event?: { readonly $?: unknown; readonly call_id?: unknown };
}

function callsOf(record: RecordView): string[] {
  const ids = record.events.map((stored) => (stored as StoredEvent).event?.call_id);
  return [...new Set(ids.filter((id) => typeof id === "string"))];
}

function turnsOf(record: RecordView): number[] {
  const turns = record.events.map((stored) => (stored as StoredEvent).turn);
  return [...new Set(turns.filter((turn) => typeof turn === "number" && turn > 0))] as number[];
}

function Whole({ session, record }: { session: string; record: RecordView }) {
  const { redacted } = record;
  const hasChanges = useSignal(false);
  return (
    <>
      {redacted && (
        <p class="soft">
          Its texts were replaced by a mark
          {redacted.by && (
            <>
              {" "}
              by <Plain text={redacted.by} />
            </>
          )}
          , <Moment at={redacted.at} />.
        </p>
      )}
      <dl class="facts">
        <Fact name="At">
          <Moment at={record.at_ms} />
        </Fact>
        {record.by && (
          <Fact name="Given by">
            <Plain text={record.by} />
          </Fact>
        )}
        <Fact name="Phase">{phases(record)}</Fact>
      </dl>
      {record.rulings.length > 0 && (
        <div>
          <h3>What plugins said</h3>
          <ul class="rulings">
            {record.rulings.map((ruling) => (
              <Ruling ruling={ruling} />
            ))}
          </ul>
        </div>
      )}
      <details class="small" onToggle={({ currentTarget }) => currentTarget.open && (hasChanges.value = true)}>
        <summary>What changed in the state · {record.changed.length}</summary>
        {hasChanges.value && <StateChanges session={session} number={record.number} />}
      </details>
      <AsJson record={record} />
    </>
  );
}

function phases({ phase_before: before, phase_after: after }: RecordView): string {
  const words = (phase: string | null) => (phase === null ? UNKNOWN : phase.replaceAll("_", " "));
  return before === after ? words(after) : `${words(before)} → ${words(after)}`;
}

/** The words of the machine, for those who know it: they are in the documents about records. */
function AsJson({ record }: { record: RecordView }) {
  const isOpen = useSignal(false);
  return (
    <details class="small" onToggle={({ currentTarget }) => (isOpen.value = currentTarget.open)}>
      <summary>As JSON</summary>
      {isOpen.value && (
        <div class="stack">
          {record.request && (
            <p>
              Request <Plain text={record.request} />
            </p>
          )}
          {record.effects.length > 0 && <p>Effects: {record.effects.join(", ")}</p>}
          {record.changed.length > 0 && <p>Changed: {record.changed.join(", ")}</p>}
          <h3>
            Came in: <Plain text={record.input.kind} />
          </h3>
          <JsonText value={record.input.data} what="input" />
          {record.events.length > 0 && <h3>Events</h3>}
          {record.events.map((stored) => (
            <JsonText value={{ json: write((stored as StoredEvent).event) }} what="event" />
          ))}
        </div>
      )}
    </details>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

/** How a run of a hook came out: its icon, its colour, and its words. */
const VERDICTS: Readonly<Record<string, readonly [IconName, string, string]>> = {
  pass: ["shield", "soft", "let it pass"],
  hold: ["shield", "is-person", "held it"],
  block: ["shield", "is-bad", "blocked it"],
  abort: ["shield", "is-bad", "ended the turn"],
};

function Ruling({ ruling }: { ruling: View<"RulingView"> }) {
  const { hook, verdict, plugin, reason, critical, answers, decisions, pause, errors } = ruling;
  const [icon, role, words] = VERDICTS[verdict] ?? ["shield", "is-work", inWords(verdict).toLowerCase()];
  const hasMore = answers.length > 0 || errors.length > 0 || pause !== null;
  return (
    <li>
      <details>
        <summary>
          <span class={role}>
            <Icon name={icon} />
          </span>
          <span class="grow">{plugin ? <Plain text={plugin} /> : <code>{hook}</code>}</span>
          <span class={role}>
            {words}
            {critical && " (it is critical, and broke)"}
          </span>
        </summary>
        <p>
          Asked at <code>{hook}</code>.
        </p>
        {reason && <Folded text={reason} what="reason" />}
        {answers.length > 0 && <JsonText value={{ json: write(answers) }} what="answers" />}
        {errors.length > 0 && <JsonText value={{ json: write(errors) }} what="errors" />}
        {pause !== null && <JsonText value={{ json: write(pause) }} what="pause" />}
        {hasMore ? <JsonText value={{ json: write(decisions) }} what="decisions" /> : <p class="soft">No plugin said anything.</p>}
      </details>
    </li>
  );
}

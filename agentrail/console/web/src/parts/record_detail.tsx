/** One record, whole: what came in, what each plugin said, what came of it; and what can be done from there. */
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { write } from "../host/exact_json";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { address, go } from "../route";
import { useAnswer } from "../store/answer";
import { happened } from "../store/record_words";
import type { RecordView } from "../store/records";
import { act, ActionButton, SILENT, Told, type Telling } from "./action";
import { UNKNOWN } from "./amounts";
import { Folded } from "./folded";
import { JsonText } from "./json_text";
import { Moment } from "./moment";
import { Plain } from "./plain";
import { ProblemNote } from "./problem_note";
import { StateChanges } from "./state_changes";

interface RecordDetailProps {
  readonly session: string;
  readonly number: number;
  /** Whether what the machine made of it is shown too. */
  readonly isMachine: boolean;
}

export function RecordDetail({ session, number, isMachine }: RecordDetailProps) {
  const answer = useAnswer("records", session, { record: number }).value;
  const telling = useSignal<Telling>(SILENT);
  const record = answer.value?.records[0];
  return (
    <section class="record" aria-label={`Record ${number}`} aria-busy={answer.isLate}>
      <h2>Record {number}</h2>
      {record && (
        <p class="outcome">
          <Plain text={happened(record)} />
        </p>
      )}
      <RecordActions session={session} number={number} record={record} telling={telling} />
      {answer.problem && <ProblemNote problem={answer.problem} />}
      {record ? <Whole record={record} isMachine={isMachine} /> : answer.isLate && <p>Loading …</p>}
      {isMachine && <StateChanges session={session} number={number} />}
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
        <ActionButton act={fork}>Fork here</ActionButton>
        {record && callsOf(record).map((id) => <WhyLink session={session} about={id} what={`the call ${id}`} />)}
        {record && turnsOf(record).map((turn) => <WhyLink session={session} about={turn} what={`turn ${turn}`} />)}
      </div>
      <Told telling={telling} />
    </>
  );
}

function WhyLink({ session, about, what }: { session: string; about: string | number; what: string }) {
  return (
    <a href={address(session, "why", about)}>
      Why: <Plain text={what} />
    </a>
  );
}

/** An event of a record, as much of it as is looked at here. */
interface StoredEvent {
  readonly turn?: unknown;
  readonly event?: { readonly $?: unknown; readonly call_id?: unknown };
}

/** Returns the names of the events of a record. */
export function eventNames(record: RecordView): string[] {
  return record.events.map((stored) => {
    const name = (stored as StoredEvent).event?.$;
    return typeof name === "string" ? name : "?";
  });
}

function callsOf(record: RecordView): string[] {
  const ids = record.events.map((stored) => (stored as StoredEvent).event?.call_id);
  return [...new Set(ids.filter((id) => typeof id === "string"))];
}

function turnsOf(record: RecordView): number[] {
  const turns = record.events.map((stored) => (stored as StoredEvent).turn);
  return [...new Set(turns.filter((turn) => typeof turn === "number" && turn > 0))] as number[];
}

/** Whether a plugin did more than let it pass. */
function hasAnswer({ verdict, answers, errors }: View<"RulingView">): boolean {
  return verdict !== "pass" || answers.length > 0 || errors.length > 0;
}

function Whole({ record, isMachine }: { record: RecordView; isMachine: boolean }) {
  const { redacted } = record;
  const rulings = isMachine ? record.rulings : record.rulings.filter(hasAnswer);
  return (
    <>
      {redacted && (
        <p class="note">
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
        <Fact name="Time">
          <Moment at={record.at_ms} />
        </Fact>
        {record.by && (
          <Fact name="Given by">
            <Plain text={record.by} />
          </Fact>
        )}
        {isMachine && record.request && (
          <Fact name="Request">
            <Plain text={record.request} />
          </Fact>
        )}
        {isMachine && (
          <Fact name="Phase">
            {record.phase_before ?? UNKNOWN} → {record.phase_after ?? UNKNOWN}
          </Fact>
        )}
        {isMachine && record.effects.length > 0 && <Fact name="Effects">{record.effects.join(", ")}</Fact>}
        {isMachine && record.changed.length > 0 && <Fact name="Changed">{record.changed.join(", ")}</Fact>}
      </dl>
      {isMachine && (
        <>
          <h3>
            Came in: <Plain text={record.input.kind} />
          </h3>
          <JsonText value={record.input.data} what="input" />
        </>
      )}
      {rulings.length > 0 && <h3>Plugins</h3>}
      {rulings.map((ruling) => (
        <RulingDetail ruling={ruling} />
      ))}
      {record.events.length > 0 && <h3>Events</h3>}
      {record.events.map((stored, index) => (
        <details>
          <summary>
            <Plain text={eventNames(record)[index] ?? "?"} />
          </summary>
          <JsonText value={{ json: write((stored as StoredEvent).event) }} what="event" />
        </details>
      ))}
    </>
  );
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function RulingDetail({ ruling }: { ruling: View<"RulingView"> }) {
  const { hook, verdict, plugin, reason, critical, answers, decisions, pause, errors } = ruling;
  const hasMore = answers.length > 0 || errors.length > 0 || pause !== null;
  return (
    <details class="ruling" data-verdict={verdict}>
      <summary>
        <code>{hook}</code>: {verdict}
        {plugin && (
          <>
            {" "}
            by <Plain text={plugin} />
          </>
        )}
        {critical && " (it is critical, and broke)"}
      </summary>
      {reason && <Folded text={reason} what="reason" />}
      {answers.length > 0 && <JsonText value={{ json: write(answers) }} what="answers" />}
      {errors.length > 0 && <JsonText value={{ json: write(errors) }} what="errors" />}
      {pause !== null && <JsonText value={{ json: write(pause) }} what="pause" />}
      {hasMore ? <JsonText value={{ json: write(decisions) }} what="decisions" /> : <p>No plugin said anything.</p>}
    </details>
  );
}

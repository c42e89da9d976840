/** Every record of a session as a row: what came in, and what came of it; and the record that is chosen, whole. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { count } from "../parts/amounts";
import { BesideForm, CommonPast } from "../parts/beside";
import { Lanes } from "../parts/lanes";
import { Moment } from "../parts/moment";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { RecordDetail, eventNames } from "../parts/record_detail";
import { VirtualList } from "../parts/virtual_list";
import type { SessionRoomProps } from "../rooms";
import { address, replaceAddress, type Place } from "../route";
import { happened } from "../store/record_words";
import { useRecords, type Records, type RecordView } from "../store/records";

const COLUMNS = ["Record", "Time", "What happened"] as const;
/** Words of the machine, for those who know it: they are in the documents about records. */
const MACHINE_COLUMNS = ["Record", "Time", "What came in", "Phase", "Hooks", "Effects", "Events"] as const;
/** What the address says if the words of the machine are shown. */
const WORDS = "words";
const MACHINE = "machine";

/** Returns the address of a record, with *query*, which says what is beside. */
function recordAddress(session: string, number: number, query: URLSearchParams): string {
  return `${address(session, "record", number)}${query.size ? `?${query}` : ""}`;
}

/** Returns the number of the record that the address names, within those there are; 0: it names none. */
function numberOf(place: Place, head: number | null): number {
  const number = Number.parseInt(place.rest[0] ?? "", 10);
  return Number.isSafeInteger(number) && number > 0 ? Math.min(number, head ?? number) : 0;
}

export default function Timeline({ session, place }: SessionRoomProps) {
  const records = useRecords(session);
  const head = records.head.value;
  const number = numberOf(place, head) || (head ?? 0);
  const choose = (to: number) => replaceAddress(recordAddress(session, to, place.query));
  const problem = records.problem.value;
  const other = place.query.get("with") ?? "";
  const isMachine = place.query.get(WORDS) === MACHINE;
  const showQuery = (name: string, value: string) => {
    const query = new URLSearchParams(place.query);
    if (value) query.set(name, value);
    else query.delete(name);
    replaceAddress(recordAddress(session, number, query));
  };
  return (
    <>
      {problem && <ProblemNote problem={problem} />}
      <div class="timeline-head">
      <p role="status" class="hint">
        {head === null ? "Loading …" : head === 1 ? "1 record." : `${count(head)} records.`}
      </p>
      <label>
        <input
          type="checkbox"
          checked={isMachine}
          onChange={(event) => showQuery(WORDS, event.currentTarget.checked ? MACHINE : "")}
        />{" "}
        Words of the machine
      </label>
      </div>
      {head !== null && head > 0 && (
        <>
          <Lanes session={session} number={number} head={head} choose={choose} />
          <Slider number={number} head={head} choose={choose} />
          <div class="timeline">
            <RecordList records={records} head={head} number={number} choose={choose} isMachine={isMachine} />
            {other ? (
              <Beside left={records} session={other} isMachine={isMachine} />
            ) : (
              <RecordDetail session={session} number={number} isMachine={isMachine} />
            )}
          </div>
          <BesideForm
            key={other}
            other={other}
            show={(beside) => showQuery("with", beside)}
          />
        </>
      )}
    </>
  );
}

function Slider({ number, head, choose }: { number: number; head: number; choose: (number: number) => void }) {
  return (
    <div class="record-slider">
      <button type="button" disabled={number <= 1} onClick={() => choose(number - 1)}>
        Record before
      </button>
      <input
        type="range"
        aria-label="Record"
        min={1}
        max={head}
        value={number}
        aria-valuetext={`record ${number} of ${head}`}
        onInput={(event) => choose(event.currentTarget.valueAsNumber)}
      />
      <button type="button" disabled={number >= head} onClick={() => choose(number + 1)}>
        Record after
      </button>
    </div>
  );
}

/** The records of another session; the one that is chosen there is not in the address. */
function Beside({ left, session, isMachine }: { left: Records; session: string; isMachine: boolean }) {
  const right = useRecords(session);
  const chosen = useSignal(1);
  const head = right.head.value;
  const problem = right.problem.value;
  return (
    <section class="beside" aria-label="The session beside">
      <h2>
        <a href={address(session, "record", chosen.value)}>
          <Plain text={session} />
        </a>
      </h2>
      {problem && <ProblemNote problem={problem} />}
      <CommonPast left={left} right={right} />
      {head !== null && head > 0 && (
        <RecordList
          records={right}
          head={head}
          number={chosen.value}
          choose={(number) => (chosen.value = number)}
          isMachine={isMachine}
        />
      )}
    </section>
  );
}

interface RecordListProps {
  readonly records: Records;
  readonly head: number;
  readonly number: number;
  readonly choose: (number: number) => void;
  /** Whether it is told in the words of the machine. */
  readonly isMachine: boolean;
}

function RecordList({ records, head, number, choose, isMachine }: RecordListProps) {
  void records.version.value; // rows are drawn again when their records have come
  const rows = useMemo(() => Array.from({ length: head }, (_, index) => index + 1), [head]);
  return (
    <VirtualList
      rows={rows}
      label={`Records of ${records.session}`}
      columns={isMachine ? MACHINE_COLUMNS : COLUMNS}
      idOf={String}
      chosen={String(number)}
      choose={(id) => choose(Number(id))}
      cells={(row) => (isMachine ? machineCells(records, row) : cells(records, row))}
    />
  );
}

/** Has its record loaded as long as it is in the page. */
function Wanted({ records, number }: { records: Records; number: number }) {
  useEffect(() => records.want(number), [records, number]);
  return <>{number}</>;
}

function cells(records: Records, number: number): readonly ComponentChildren[] {
  const record = records.get(number);
  const wanted = <Wanted records={records} number={number} />;
  if (!record) return [wanted, "…", ""];
  return [wanted, <Moment at={record.at_ms} />, <Plain text={happened(record)} />];
}

function machineCells(records: Records, number: number): readonly ComponentChildren[] {
  const record = records.get(number);
  const wanted = <Wanted records={records} number={number} />;
  if (!record) return [wanted, "…", "", "", "", "", ""];
  return [
    wanted,
    <Moment at={record.at_ms} />,
    <>
      <Plain text={record.input.kind} />
      {record.by && (
        <>
          {" "}
          by <Plain text={record.by} />
        </>
      )}
    </>,
    phases(record),
    hooks(record),
    record.effects.join(", "),
    eventNames(record).join(", "),
  ];
}

function phases({ phase_before: before, phase_after: after }: RecordView): string {
  if (before === after) return after ?? "";
  return `${before ?? "?"} → ${after ?? "?"}`;
}

/** Returns the hooks of which plugins made more than nothing, each with its verdict. */
function hooks(record: RecordView): string {
  const told = record.rulings.filter(({ verdict, answers, errors }) => verdict !== "pass" || answers.length || errors.length);
  return told.map(({ hook, verdict, plugin }) => `${hook}: ${verdict}${plugin ? ` (${plugin})` : ""}`).join(", ");
}

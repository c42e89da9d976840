/** Who used the time, in one sentence and in lanes; every record as a sentence; and the record that is chosen, whole. */
import "../style/insight.css";
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { BesideForm, CommonPast } from "../parts/beside";
import { Lanes } from "../parts/lanes";
import { Moment, duration } from "../parts/moment";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { RecordDetail } from "../parts/record_detail";
import { RecordIcon } from "../parts/record_icon";
import { Table, type Column } from "../parts/table";
import type { SessionRoomProps } from "../rooms";
import { address, replaceAddress, type Place } from "../route";
import { happened, kindOf } from "../store/record_words";
import { useRecords, type Records } from "../store/records";
import { isBad, useTimeline, type Shown, type Span, type Timeline as Stretches } from "../store/timeline";

const COLUMNS: readonly Column[] = [
  { title: "Time", width: "5.5rem" },
  { title: "What happened" },
  { title: "Took", width: "5.5rem", isNumber: true, isExtra: true },
];

/** The input of a record by which a sub-agent says what it does. */
const REPORT = "SubagentReported";

/** A record, or several reports of a sub-agent that follow each other. */
interface Row {
  readonly number: number;
  readonly last: number;
}

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
  const timeline = useTimeline(session);
  const shown = useSignal<Shown>("all");
  const head = records.head.value;
  const named = numberOf(place, head);
  const number = named || (head ?? 0);
  const choose = (to: number) => replaceAddress(recordAddress(session, to, place.query));
  const problem = records.problem.value;
  const other = place.query.get("with") ?? "";
  const showBeside = (beside: string) => {
    const query = new URLSearchParams(place.query);
    if (beside) query.set("with", beside);
    else query.delete("with");
    replaceAddress(recordAddress(session, number, query));
  };
  return (
    <div class="room">
      {problem && <ProblemNote problem={problem} />}
      {head === null && !problem && <p role="status">Loading …</p>}
      {head !== null && head > 0 && (
        <>
          <Lanes timeline={timeline} number={number} head={head} choose={choose} shown={shown} />
          <div class="list-detail">
            <RecordList records={records} timeline={timeline} head={head} number={number} choose={choose} shown={shown.value} mustShow={named > 0} />
            {other ? <Beside left={records} session={other} /> : <RecordDetail session={session} number={number} head={head} choose={choose} />}
          </div>
          <BesideForm key={other} other={other} show={showBeside} />
        </>
      )}
    </div>
  );
}

/** The records of another session; the one that is chosen there is not in the address. */
function Beside({ left, session }: { left: Records; session: string }) {
  const right = useRecords(session);
  const timeline = useTimeline(session);
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
          timeline={timeline}
          head={head}
          number={chosen.value}
          choose={(number) => (chosen.value = number)}
          shown="all"
          mustShow={false}
        />
      )}
    </section>
  );
}

interface RecordListProps {
  readonly records: Records;
  readonly timeline: Stretches;
  readonly head: number;
  readonly number: number;
  readonly choose: (number: number) => void;
  readonly shown: Shown;
  readonly mustShow: boolean;
}

function RecordList({ records, timeline, head, number, choose, shown, mustShow }: RecordListProps) {
  void records.version.value; // rows are drawn again when their records have come
  const version = timeline.version.value;
  const rows = useMemo(() => rowsOf(timeline, head, shown), [head, shown, version]);
  const ended = useMemo(() => new Map(timeline.spans.map((span) => [span.last, span])), [version]);
  const chosen = rows.find((row) => row.number <= number && number <= row.last);
  return (
    <section class="card records">
      <Table
        rows={rows}
        label={`Records of ${records.session}`}
        columns={COLUMNS}
        hasHiddenHead
        height={1.95}
        phoneHeight={3.4}
        idOf={(row) => String(row.number)}
        chosen={chosen ? String(chosen.number) : null}
        choose={(id) => choose(Number(id))}
        mustShow={mustShow}
        cells={(row) => cells(records, timeline, row, ended.get(row.last))}
      />
    </section>
  );
}

/** Returns the records of which something is shown; reports that follow each other are one row. */
function rowsOf(timeline: Stretches, head: number, shown: Shown): Row[] {
  if (shown !== "all") {
    const spans = timeline.spans.filter((span) => (shown === "errors" ? isBad(span) : span.lane === shown));
    const numbers = new Set(spans.flatMap(({ first, last }) => (last === null ? [first] : [first, last])));
    return [...numbers].sort((left, right) => left - right).map((number) => ({ number, last: number }));
  }
  const reports = new Set(timeline.rows.filter(({ input }) => input === REPORT).map(({ record }) => record));
  const rows: Row[] = [];
  for (let number = 1; number <= head; number += 1) {
    let last = number;
    while (reports.has(number) && reports.has(last + 1)) last += 1;
    rows.push({ number, last });
    number = last;
  }
  return rows;
}

/** Has its record loaded as long as it is in the page. */
function Wanted({ records, number }: { records: Records; number: number }) {
  useEffect(() => records.want(number), [records, number]);
  return null;
}

function cells(records: Records, timeline: Stretches, { number, last }: Row, ended: Span | undefined): readonly ComponentChildren[] {
  const record = records.get(number);
  const wanted = <Wanted records={records} number={number} />;
  if (!record) return [<>{wanted}…</>, "", ""];
  return [
    <span class="tiny soft">
      {wanted}
      <Moment at={record.at_ms} />
    </span>,
    <span class="line">
      <RecordIcon kind={kindOf(record)} />
      <span class="cut">{last > number ? `${last - number + 1} reports of ${reporterOf(timeline, number)}` : <Plain text={happened(record)} isCut />}</span>
    </span>,
    <span class="tiny soft">{ended?.end_ms != null && ended.end_ms > ended.start_ms && duration(ended.end_ms - (ended.ran_ms ?? ended.start_ms))}</span>,
  ];
}

/** Returns the name of the sub-agent that is at work at a record. */
function reporterOf(timeline: Stretches, number: number): string {
  const found = timeline.spans.find(({ lane, first, last }) => lane === "subagents" && first <= number && number <= (last ?? Infinity));
  return found?.label || "a sub-agent";
}

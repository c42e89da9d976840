/** Plots over time, per tenant, session, model or tool; a stretch of time leads to its sessions. */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { QueryOf, View } from "../host/interface";
import { count, dollars, isUntold, spent, UNKNOWN } from "../parts/amounts";
import { duration, Moment } from "../parts/moment";
import { Plain } from "../parts/plain";
import { Plot, type Line } from "../parts/plot";
import { ProblemNote } from "../parts/problem_note";
import type { RoomProps } from "../rooms";
import { address, replaceQuery, type Place } from "../route";
import { useAnswer } from "../store/answer";
import { useTitles } from "../store/titles";

type Bucket = View<"FigureBucketView">;
type Series = View<"SeriesView">;
type Per = NonNullable<QueryOf<"figures">["per"]>;

const PERS: readonly Per[] = ["tenant", "session", "model", "tool"];
const SPANS = { "15 min": 900_000, "1 h": 3_600_000, "6 h": 21_600_000, "24 h": 86_400_000 } as const;
const MOST = 8;

interface Measure {
  readonly title: string;
  /** What the host counts it for. */
  readonly pers: readonly Per[];
  readonly of: (bucket: Bucket) => number | null;
  readonly format: (value: number) => string;
  /** Whether values of a series are added up for its total; otherwise the largest one is told. */
  readonly isSum: boolean;
  /** How the total of a series is told, if its amount alone would not be true. */
  readonly total?: (buckets: readonly Bucket[]) => string;
}

const seconds = (value: number) => duration(value * 1000);
const percent = (value: number) => `${Math.round(value * 100)} %`;
const ended = ({ turns }: Bucket) => Object.values(turns).reduce((sum, number) => sum + number, 0);
/** What a stretch of time has cost; null: the price of none of its responses is known. */
const cost = (bucket: Bucket) =>
  isUntold(bucket) || (bucket.unpriced > 0 && bucket.unpriced >= bucket.responses) ? null : bucket.cost_usd;
/** Tokens of a stretch of time; null: no response has told how many. */
const tokens = (bucket: Bucket, of: "input_tokens" | "output_tokens") => (isUntold(bucket) ? null : bucket[of]);
const notEnded = ({ turns }: Bucket) => ended({ turns } as Bucket) - (turns["end"] ?? 0);

/** Of what the host counts use, times of turns, and calls: of all else it knows nothing, and 0 would be wrong. */
const USED: readonly Per[] = ["tenant", "session", "model"];
const TIMED: readonly Per[] = ["tenant", "model"];
const CALLED: readonly Per[] = ["tenant", "tool"];

const MEASURES: Readonly<Record<string, Measure>> = {
  cost: { title: "Cost", pers: USED, of: cost, format: dollars, isSum: true, total: spent },
  input: { title: "Tokens read", pers: USED, of: (bucket) => tokens(bucket, "input_tokens"), format: count, isSum: true },
  output: { title: "Tokens written", pers: USED, of: (bucket) => tokens(bucket, "output_tokens"), format: count, isSum: true },
  cached: { title: "Cached share", pers: USED, of: ({ cached_share: share }) => share, format: percent, isSum: false },
  responses: { title: "Responses", pers: USED, of: (bucket) => (isUntold(bucket) ? null : bucket.responses), format: count, isSum: true },
  turns: { title: "Turns that ended", pers: USED, of: ended, format: count, isSum: true },
  ends: { title: "Turns that ended otherwise than well", pers: USED, of: notEnded, format: count, isSum: true },
  word: { title: "First word (mean)", pers: TIMED, of: ({ first_word: time }) => time?.mean_s ?? null, format: seconds, isSum: false },
  turn: { title: "Turn, with waits for people (mean)", pers: TIMED, of: ({ turn }) => turn?.mean_s ?? null, format: seconds, isSum: false },
  tool: { title: "Tool, without those waits (mean)", pers: CALLED, of: ({ tool }) => tool?.mean_s ?? null, format: seconds, isSum: false },
  person: { title: "Until people decided (mean)", pers: CALLED, of: ({ person }) => person?.mean_s ?? null, format: seconds, isSum: false },
  abort: { title: "Abort (mean)", pers: TIMED, of: ({ abort }) => abort?.mean_s ?? null, format: seconds, isSum: false },
  errors: { title: "Failed calls", pers: CALLED, of: ({ tool_errors: errors }) => errors, format: count, isSum: true },
};
const COST = MEASURES["cost"] as Measure;

interface Choice {
  readonly per: Per;
  readonly what: string;
  readonly span: keyof typeof SPANS;
  /** The stretch of time that was chosen; null: none. */
  readonly from: number | null;
  readonly to: number | null;
}

/** Returns *choice* with a measure that is counted for what it is about; *first* says which of the two was chosen. */
function counted(choice: Choice, first: "per" | "what"): Choice {
  const { per, what } = choice;
  const { pers } = MEASURES[what] ?? COST;
  if (pers.includes(per)) return choice;
  if (first === "what") return { ...choice, per: pers[0] ?? per };
  const found = Object.entries(MEASURES).find(([, measure]) => measure.pers.includes(per));
  return { ...choice, what: found?.[0] ?? what };
}

function choiceOf({ query }: Place): Choice {
  const numberOf = (name: string) => (query.has(name) && Number.isFinite(Number(query.get(name))) ? Number(query.get(name)) : null);
  const choice: Choice = {
    per: PERS.find((per) => per === query.get("per")) ?? "session",
    what: MEASURES[query.get("what") ?? ""] ? (query.get("what") ?? "cost") : "cost",
    span: (query.get("span") ?? "") in SPANS ? (query.get("span") as keyof typeof SPANS) : "1 h",
    from: numberOf("from"),
    to: numberOf("to"),
  };
  return counted(choice, "per");
}

export default function Figures({ place }: RoomProps) {
  const choice = useSignal(choiceOf(place));
  const until = useSignal(Date.now());
  useEffect(() => {
    const { per, what, span, from, to } = choice.value;
    replaceQuery({ per, what, span, from: from === null ? "" : String(from), to: to === null ? "" : String(to) });
  }, [choice.value]);
  const { per, what, span } = choice.value;
  const query = { per, limit: MOST, since_ms: until.value - SPANS[span], until_ms: until.value };
  const answer = useAnswer("figures", null, query).value;
  const change = (more: Partial<Choice>) => (choice.value = counted({ ...choice.value, from: null, to: null, ...more }, more.per ? "per" : "what"));
  return (
    <>
      <h1>Figures</h1>
      <Form choice={choice.value} change={change} renew={() => (until.value = Date.now())} />
      {answer.problem && <ProblemNote problem={answer.problem} />}
      {answer.value ? (
        <div aria-busy={answer.isLate}>
          <Lines figures={answer.value} measure={MEASURES[what] ?? COST} change={change} />
          <HostLines figures={answer.value} />
          {choice.value.from !== null && choice.value.to !== null && (
            <Chosen from={choice.value.from} to={choice.value.to} leave={() => change({})} />
          )}
        </div>
      ) : (
        answer.isLate && <p role="status">Loading …</p>
      )}
    </>
  );
}

interface FormProps {
  readonly choice: Choice;
  readonly change: (more: Partial<Choice>) => void;
  readonly renew: () => void;
}

function Form({ choice, change, renew }: FormProps) {
  return (
    <form class="filter" onSubmit={(event) => event.preventDefault()}>
      <label>
        What{" "}
        <select value={choice.what} onChange={(event) => change({ what: event.currentTarget.value })}>
          {Object.entries(MEASURES).map(([name, { title }]) => (
            <option value={name}>{title}</option>
          ))}
        </select>
      </label>
      <label>
        Per{" "}
        <select value={choice.per} onChange={(event) => change({ per: event.currentTarget.value as Per })}>
          {PERS.map((per) => (
            <option value={per}>{per}</option>
          ))}
        </select>
      </label>
      <label>
        The last{" "}
        <select value={choice.span} onChange={(event) => change({ span: event.currentTarget.value as keyof typeof SPANS })}>
          {Object.keys(SPANS).map((span) => (
            <option value={span}>{span}</option>
          ))}
        </select>
      </label>
      <button type="button" onClick={renew}>
        Up to now
      </button>
    </form>
  );
}

interface LinesProps {
  readonly figures: View<"FiguresView">;
  readonly measure: Measure;
  readonly change: (more: Partial<Choice>) => void;
}

function Lines({ figures, measure, change }: LinesProps) {
  const { series, more } = figures;
  const titleOf = useTitles(namesOf(figures));
  const times = useMemo(() => {
    const all = new Set(series.flatMap(({ buckets }) => buckets.map(({ at_ms: at }) => at)));
    return [...all].sort((left, right) => left - right);
  }, [series]);
  const lines = useMemo(() => series.map((one) => lineOf(one, times, measure)), [series, times, measure]);
  if (series.length === 0) return <p role="status">There are no figures of this time.</p>;
  return (
    <>
      <Plot
        label={`${measure.title} over time, ${series.length} lines; the table below has the numbers`}
        times={times}
        lines={lines}
        from={figures.since_ms}
        to={figures.until_ms}
        format={measure.format}
        choose={(from, to) => change({ from: Math.round(from), to: Math.round(to) })}
      />
      <p class="hint">Drag over a stretch of time to see its sessions.</p>
      <Totals figures={figures} measure={measure} titleOf={titleOf} />
      {more > 0 && <p>{count(more)} more are not shown.</p>}
    </>
  );
}

/** The sessions that *figures* are of; none if they are of something else. */
function namesOf({ per, series }: View<"FiguresView">): string[] {
  return per === "session" ? series.map(({ name }) => name).filter(Boolean) : [];
}

function lineOf({ name, buckets }: Series, times: readonly number[], { of }: Measure): Line {
  const values = new Map(buckets.map((bucket) => [bucket.at_ms, of(bucket)]));
  return { name, values: times.map((at) => values.get(at) ?? null) };
}

function total({ buckets }: Series, { of, format, isSum, total: told }: Measure): string {
  if (told) return told(buckets);
  const values = buckets.map(of).filter((value) => value !== null);
  if (values.length === 0) return UNKNOWN;
  return format(isSum ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values));
}

interface TotalsProps {
  readonly figures: View<"FiguresView">;
  readonly measure: Measure;
  /** Gives the title of a session, or its id if it has none. */
  readonly titleOf: (session: string) => string;
}

function Totals({ figures, measure, titleOf }: TotalsProps) {
  return (
    <div class="table" tabIndex={0} role="region" aria-label="The numbers">
      <table>
        <thead>
          <tr>
            <th scope="col">{figures.per}</th>
            <th scope="col" class="amount">
              {measure.title}, {measure.isSum ? "in all" : "at most"}
            </th>
          </tr>
        </thead>
        <tbody>
          {figures.series.map((series) => (
            <tr>
              <td>
                {figures.per === "session" && series.name ? (
                  <SessionLink session={series.name} title={titleOf(series.name)} />
                ) : (
                  <Plain text={series.name || "all others"} />
                )}
              </td>
              <td class="amount">{total(series, measure)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function SessionLink({ session, title }: { session: string; title: string }) {
  return (
    <>
      <a href={address(session)}>
        <Plain text={title} />
      </a>
      {title !== session && (
        <>
          {" "}
          <span class="id">
            <Plain text={session} />
          </span>
        </>
      )}
    </>
  );
}

function HostLines({ figures }: { figures: View<"FiguresView"> }) {
  const { host, since_ms: from, until_ms: to } = figures;
  const times = useMemo(() => host.map(({ at_ms: at }) => at), [host]);
  const lines = useMemo(
    () => [
      { name: "event loop late", values: host.map(({ loop_lag_s: lag }) => lag) },
      { name: "commit (mean)", values: host.map(({ commit }) => commit?.mean_s ?? null) },
    ],
    [host],
  );
  if (host.length === 0) return null;
  const worst = Math.max(...host.map(({ loop_lag_s: lag }) => lag));
  return (
    <>
      <h2>The host</h2>
      <Plot
        label={`How late the event loop was, at most ${seconds(worst)}, and commits`}
        times={times}
        lines={lines}
        from={from}
        to={to}
        format={seconds}
      />
      <p>The event loop was late by {seconds(worst)} at most.</p>
    </>
  );
}

/** The sessions that did something in a stretch of time. */
function Chosen({ from, to, leave }: { from: number; to: number; leave: () => void }) {
  const answer = useAnswer("figures", null, { per: "session", since_ms: from, until_ms: to }).value;
  const titleOf = useTitles(answer.value ? namesOf(answer.value) : []);
  return (
    <section aria-label="The chosen time">
      <h2>
        From <Moment at={from} /> to <Moment at={to} />
      </h2>
      {answer.problem && <ProblemNote problem={answer.problem} />}
      {answer.value && (
        <ul class="chosen-sessions">
          {answer.value.series
            .filter(({ name }) => name)
            .map(({ name, buckets }) => (
              <li>
                <SessionLink session={name} title={titleOf(name)} /> {spent(buckets)}
              </li>
            ))}
        </ul>
      )}
      <button type="button" onClick={leave}>
        Choose no time
      </button>
    </section>
  );
}

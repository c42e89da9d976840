/** What sessions cost, used and took over time, and how turns ended; a stretch of time leads to its sessions. */
import "../style/insight.css";
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { QueryOf, View } from "../host/interface";
import { count, dollars, isUntold, shortCount, spent, UNKNOWN } from "../parts/amounts";
import { Choice } from "../parts/choice";
import { Empty } from "../parts/empty";
import { Menu } from "../parts/menu";
import { duration, Moment, moment } from "../parts/moment";
import { Plain } from "../parts/plain";
import { PlotCard, type CardLine } from "../parts/plot_card";
import { ProblemNote } from "../parts/problem_note";
import type { RoomProps } from "../rooms";
import { address, replaceQuery, type Place } from "../route";
import { useAnswer } from "../store/answer";
import { capitalised } from "../store/capitalised";
import { useTitles } from "../store/titles";

type Bucket = View<"FigureBucketView">;
type Series = View<"SeriesView">;
type Figures = View<"FiguresView">;
type Per = NonNullable<QueryOf<"figures">["per"]>;

const PERS: readonly Per[] = ["session", "model", "tool", "tenant"];
const SPANS = { "15 min": 900_000, "1 h": 3_600_000, "6 h": 21_600_000, "24 h": 86_400_000 } as const;
type SpanName = keyof typeof SPANS;
const MOST = 8;
/** The colours of series; those beyond them are put together, in the last one. */
const KEYS = ["k1", "k2", "k3", "k4"] as const;
const REST = "k5";

const seconds = (value: number) => duration(value * 1000);
const sumOf = (buckets: readonly Bucket[], of: (bucket: Bucket) => number) => buckets.reduce((sum, bucket) => sum + of(bucket), 0);
/** What a stretch of time has cost; null: the price of none of its responses is known. */
const cost = (bucket: Bucket) =>
  isUntold(bucket) || (bucket.unpriced > 0 && bucket.unpriced >= bucket.responses) ? null : bucket.cost_usd;
const ended = ({ turns }: Bucket) => Object.values(turns).reduce((sum, number) => sum + number, 0);
const answered = ({ turns }: Bucket) => turns["end"] ?? 0;
const stopped = ({ turns }: Bucket) => turns["aborted"] ?? 0;
const failed = (bucket: Bucket) => ended(bucket) - answered(bucket) - stopped(bucket);

type Time = "turn" | "first_word" | "tool" | "abort" | "person";

/** Returns the mean of a time over several stretches; null: nothing was measured. */
function mean(buckets: readonly Bucket[], of: Time): number | null {
  const times = buckets.map((bucket) => bucket[of]).filter((time) => time != null);
  const number = times.reduce((sum, time) => sum + time.count, 0);
  return number ? times.reduce((sum, time) => sum + time.mean_s * time.count, 0) / number : null;
}

interface Choices {
  readonly per: Per;
  readonly span: SpanName;
  /** The stretch of time that was chosen; null: none. */
  readonly from: number | null;
  readonly to: number | null;
}

function choicesOf({ query }: Place): Choices {
  const numberOf = (name: string) => (query.has(name) && Number.isFinite(Number(query.get(name))) ? Number(query.get(name)) : null);
  const span = query.get("span") ?? "";
  return {
    per: PERS.find((per) => per === query.get("per")) ?? "session",
    span: span in SPANS ? (span as SpanName) : "1 h",
    from: numberOf("from"),
    to: numberOf("to"),
  };
}

export default function FiguresRoom({ place }: RoomProps) {
  const choice = useSignal(choicesOf(place));
  const until = useSignal(Date.now());
  useEffect(() => {
    const { per, span, from, to } = choice.value;
    replaceQuery({ per, span, from: from === null ? "" : String(from), to: to === null ? "" : String(to) });
  }, [choice.value]);
  const { per, span, from, to } = choice.value;
  const time = { since_ms: until.value - SPANS[span], until_ms: until.value };
  const answer = useAnswer("figures", null, { per, limit: MOST, ...time }).value;
  const whole = useAnswer("figures", null, { per: "tenant", limit: MOST, ...time }).value;
  const change = (more: Partial<Choices>) => {
    if (more.span) until.value = Date.now();
    choice.value = { ...choice.value, from: null, to: null, ...more };
  };
  const choose = (start: number, end: number) => change({ from: Math.round(start), to: Math.round(end) });
  const isEmpty = answer.value?.series.length === 0 && whole.value?.series.length === 0;
  const wider = Object.keys(SPANS)[Object.keys(SPANS).indexOf(span) + 1] as SpanName | undefined;
  return (
    <div class="room" aria-busy={answer.isLate}>
      <div class="room-head">
        <h1>Figures</h1>
        <span class="grow" />
        <Menu label={`By ${per}`} kind="" items={PERS.map((name) => ({ label: name, isChosen: name === per, act: () => change({ per: name }) }))} />
        <Choice
          label="The last"
          value={span}
          options={Object.keys(SPANS).map((name) => [name as SpanName, name])}
          choose={(name) => change({ span: name })}
        />
        <button type="button" class="bare slim" onClick={() => (until.value = Date.now())}>
          Up to now
        </button>
      </div>
      {answer.problem && <ProblemNote problem={answer.problem} />}
      {!answer.value && answer.isLate && <p role="status">Loading …</p>}
      {answer.value && isEmpty && (
        <Empty
          icon="figures"
          title={`Nothing happened in the last ${span}`}
          next={
            wider && (
              <button type="button" onClick={() => change({ span: wider })}>
                Show {wider}
              </button>
            )
          }
        >
          Cost, tokens, times and ends of turns would be here. The host has figures since {moment(answer.value.kept_since_ms)}.
        </Empty>
      )}
      {answer.value && whole.value && !isEmpty && <Plots figures={answer.value} whole={whole.value} choose={choose} />}
      {answer.value && !isEmpty && (
        <>
          {from !== null && to !== null && <Chosen from={from} to={to} leave={() => change({})} />}
          <Grouped figures={answer.value} />
        </>
      )}
      {whole.value && !isEmpty && <HostCard figures={whole.value} />}
    </div>
  );
}

interface PlotsProps {
  readonly figures: Figures;
  /** The same of all tenants, of which the host counts times too. */
  readonly whole: Figures;
  readonly choose: (from: number, to: number) => void;
}

function Plots({ figures, whole, choose }: PlotsProps) {
  const titleOf = useTitles(namesOf(figures));
  const names = figures.series.map(({ name }) => titleOf(name)).join("\n");
  const isCosted = figures.per !== "tool";
  const costed = isCosted ? figures : whole;
  const times = useMemo(() => timesOf([...costed.series, ...whole.series]), [costed, whole]);
  const costs = useMemo(() => costLines(costed, times, titleOf), [costed, times, names]);
  const all = useMemo(() => whole.series.flatMap(({ buckets }) => buckets), [whole]);
  const at = (of: (buckets: readonly Bucket[]) => number | null) => times.map((time) => of(all.filter(({ at_ms: start }) => start === time)));
  const line = (name: string, key: string, of: (bucket: Bucket) => number, format: (value: number) => string, isBad = false): CardLine => ({
    name,
    key,
    isBad,
    values: at((buckets) => sumOf(buckets, of)),
    total: format(sumOf(all, of)),
  });
  const tokens = useMemo(
    () => [
      line("from the cache", "k5", ({ cached_tokens: cached }) => cached, shortCount),
      line("read anew", "k1", ({ input_tokens: read, cached_tokens: cached }) => read - cached, shortCount),
      line("written", "k3", ({ output_tokens: written }) => written, shortCount),
    ],
    [all, times],
  );
  const words = useMemo(() => {
    const longest = Math.max(0, ...all.map(({ first_word: word }) => word?.longest_s ?? 0));
    const average = mean(all, "first_word");
    const told = (value: number | null) => (value === null ? UNKNOWN : seconds(value));
    const worst = (buckets: readonly Bucket[]) => Math.max(0, ...buckets.map(({ first_word: word }) => word?.longest_s ?? 0)) || null;
    return [
      { name: "mean", key: "k1", values: at((buckets) => mean(buckets, "first_word")), total: told(average) },
      { name: "longest", key: "k4", values: at(worst), total: told(longest || null) },
    ];
  }, [all, times]);
  const turns = useMemo(
    () => [
      line("answered", "k5", answered, count),
      line("stopped by a person", "k1", stopped, count),
      line("ended otherwise", "k-bad", failed, count, true),
    ],
    [all, times],
  );
  const read = sumOf(all, ({ input_tokens: tokens }) => tokens);
  const isToldTokens = all.some((bucket) => !isUntold(bucket));
  const share = read ? Math.round((100 * sumOf(all, ({ cached_tokens: cached }) => cached)) / read) : null;
  const turnCount = sumOf(all, ended);
  const common = { times, step: figures.bucket_ms, from: figures.since_ms, to: figures.until_ms, choose };
  return (
    <div class="plots">
      <PlotCard {...common} title="Cost" total={spent(costed.series.flatMap(({ buckets }) => buckets))} lines={costs} isStacked format={dollars} />
      <PlotCard
        {...common}
        title="Tokens"
        total={isToldTokens ? shortCount(read + sumOf(all, ({ output_tokens: written }) => written)) : UNKNOWN}
        aside={share !== null && `${share} % of the read from the cache`}
        lines={tokens}
        isStacked
        format={shortCount}
      />
      <PlotCard {...common} title="Time to the first word" total={words[0]?.total ?? UNKNOWN} aside="mean of the turns" lines={words} isStacked={false} format={seconds} />
      <PlotCard
        {...common}
        title="Turns, by how they ended"
        total={count(turnCount)}
        aside={turnCount > 0 && `${Math.round((1000 * sumOf(all, answered)) / turnCount) / 10} % answered`}
        lines={turns}
        isStacked
        format={count}
      />
    </div>
  );
}

function timesOf(series: readonly Series[]): number[] {
  const all = new Set(series.flatMap(({ buckets }) => buckets.map(({ at_ms: at }) => at)));
  return [...all].sort((left, right) => left - right);
}

/** Returns a line for each of the first series, and one for the others together; what has no price is told so. */
function costLines({ series }: Figures, times: readonly number[], titleOf: (name: string) => string): CardLine[] {
  const own = series.slice(0, KEYS.length).filter(({ name }) => name);
  const rest = series.filter((one) => !own.includes(one));
  const lineOf = (name: string, key: string, buckets: readonly Bucket[]): CardLine => ({
    name,
    key,
    values: times.map((time) => sumOf(buckets.filter(({ at_ms: at }) => at === time), (bucket) => cost(bucket) ?? 0)),
    total: costWords(buckets),
  });
  const lines = own.map(({ name, buckets }, index) => lineOf(titleOf(name), KEYS[index] ?? REST, buckets));
  return rest.length ? [...lines, lineOf("others", REST, rest.flatMap(({ buckets }) => buckets))] : lines;
}

function costWords(buckets: readonly Bucket[]): string {
  const words = spent(buckets);
  return words === UNKNOWN ? "no price" : words;
}

/** The sessions that *figures* are of; none if they are of something else. */
function namesOf({ per, series }: Figures): string[] {
  return per === "session" ? series.map(({ name }) => name).filter(Boolean) : [];
}

interface Column {
  readonly title: string;
  /** What the host counts it for. */
  readonly pers: readonly Per[];
  readonly cell: (buckets: readonly Bucket[]) => string;
}

const USED: readonly Per[] = ["tenant", "session", "model"];
const TIMED: readonly Per[] = ["tenant", "model"];
const CALLED: readonly Per[] = ["tenant", "tool"];
const told = (buckets: readonly Bucket[]) => buckets.filter((bucket) => !isUntold(bucket));
const ofTold = (buckets: readonly Bucket[], of: (bucket: Bucket) => number) => (told(buckets).length ? count(sumOf(buckets, of)) : UNKNOWN);
const timeCell = (of: Time) => (buckets: readonly Bucket[]) => {
  const time = mean(buckets, of);
  return time === null ? "–" : seconds(time);
};

/** Of what the host counts use, times of turns, and calls: of all else it knows nothing, and 0 would be wrong. */
const COLUMNS: readonly Column[] = [
  { title: "Turns", pers: USED, cell: (buckets) => count(sumOf(buckets, ended)) },
  { title: "Not answered", pers: USED, cell: (buckets) => count(sumOf(buckets, (bucket) => ended(bucket) - answered(bucket))) },
  { title: "Responses", pers: USED, cell: (buckets) => ofTold(buckets, ({ responses }) => responses) },
  { title: "Read", pers: USED, cell: (buckets) => ofTold(buckets, ({ input_tokens: tokens }) => tokens) },
  { title: "Written", pers: USED, cell: (buckets) => ofTold(buckets, ({ output_tokens: tokens }) => tokens) },
  { title: "Cached", pers: USED, cell: cachedShare },
  { title: "First word", pers: TIMED, cell: timeCell("first_word") },
  { title: "A turn", pers: TIMED, cell: timeCell("turn") },
  { title: "Abort", pers: TIMED, cell: timeCell("abort") },
  { title: "Calls", pers: CALLED, cell: (buckets) => count(sumOf(buckets, ({ tool }) => tool?.count ?? 0)) },
  { title: "A call", pers: CALLED, cell: timeCell("tool") },
  { title: "Until people decided", pers: CALLED, cell: timeCell("person") },
  { title: "Failed calls", pers: CALLED, cell: (buckets) => count(sumOf(buckets, ({ tool_errors: errors }) => errors)) },
  { title: "Cost", pers: USED, cell: costWords },
];

function cachedShare(buckets: readonly Bucket[]): string {
  const read = sumOf(buckets, ({ input_tokens: tokens }) => tokens);
  return read ? `${Math.round((100 * sumOf(buckets, ({ cached_tokens: cached }) => cached)) / read)} %` : "–";
}

function Grouped({ figures }: { figures: Figures }) {
  const { per, series, more } = figures;
  const titleOf = useTitles(namesOf(figures));
  const columns = COLUMNS.filter(({ pers }) => pers.includes(per as Per));
  return (
    <section class="room">
      <div class="room-head">
        <h2>By {per}</h2>
        <span class="soft small">Drag over a plot to see its sessions here. Times are means.</span>
      </div>
      <div class="table" tabIndex={0} role="region" aria-label="The numbers">
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">{capitalised(per)}</th>
              {columns.map(({ title }) => (
                <th scope="col" class="amount">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {series.map(({ name, buckets }, index) => (
              <tr>
                <th scope="row">
                  <span class="line">
                    <span class={`key ${KEYS[index] ?? REST}`} aria-hidden="true" />
                    {per === "session" && name ? <SessionLink session={name} title={titleOf(name)} /> : <Plain text={name || "all others"} />}
                  </span>
                </th>
                {columns.map(({ cell }) => (
                  <td class="amount">{cell(buckets)}</td>
                ))}
              </tr>
            ))}
          </tbody>
          {series.length > 1 && (
            <tfoot>
              <tr>
                <th scope="row">Together</th>
                {columns.map(({ cell }) => (
                  <td class="amount">{cell(series.flatMap(({ buckets }) => buckets))}</td>
                ))}
              </tr>
            </tfoot>
          )}
        </table>
      </div>
      {more > 0 && <p class="hint">{count(more)} more are not shown.</p>}
    </section>
  );
}

function SessionLink({ session, title }: { session: string; title: string }): ComponentChildren {
  return (
    <span>
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
    </span>
  );
}

function HostCard({ figures }: { figures: Figures }) {
  const { host, since_ms: from, until_ms: to, bucket_ms: step } = figures;
  const times = useMemo(() => host.map(({ at_ms: at }) => at), [host]);
  const worst = Math.max(0, ...host.map(({ loop_lag_s: lag }) => lag));
  const commits = host.map(({ commit }) => commit).filter((commit) => commit !== null);
  const number = commits.reduce((sum, commit) => sum + commit.count, 0);
  const commit = number ? seconds(commits.reduce((sum, one) => sum + one.mean_s * one.count, 0) / number) : "none";
  const lines = useMemo(
    () => [
      { name: "event loop late", key: "k2", values: host.map(({ loop_lag_s: lag }) => lag), total: seconds(worst) },
      { name: "commit (mean)", key: "k3", values: host.map((bucket) => bucket.commit?.mean_s ?? null), total: commit },
    ],
    [host],
  );
  if (host.length === 0) return null;
  return (
    <PlotCard title="The host" total={seconds(worst)} aside="the event loop was late, at most" times={times} step={step} lines={lines} isStacked={false} from={from} to={to} format={seconds} />
  );
}

/** The sessions that did something in a stretch of time. */
function Chosen({ from, to, leave }: { from: number; to: number; leave: () => void }) {
  const answer = useAnswer("figures", null, { per: "session", since_ms: from, until_ms: to }).value;
  const titleOf = useTitles(answer.value ? namesOf(answer.value) : []);
  return (
    <section class="card" aria-label="The chosen time">
      <header>
        <h2>
          <Moment at={from} /> to <Moment at={to} />
        </h2>
        <button type="button" class="end slim" onClick={leave}>
          Choose no time
        </button>
      </header>
      {answer.problem && <ProblemNote problem={answer.problem} />}
      {answer.value && (
        <ul class="rows chosen-sessions">
          {answer.value.series
            .filter(({ name }) => name)
            .map(({ name, buckets }) => (
              <li>
                <span class="grow">
                  <SessionLink session={name} title={titleOf(name)} />
                </span>
                <span class="when">{costWords(buckets)}</span>
              </li>
            ))}
        </ul>
      )}
    </section>
  );
}

/** What ran when, in lanes over real time; it can be zoomed. The list of records tells the same to those who cannot see it. */
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { grown, MOST_WINDOWS, useTimeline, windowOf, type Span, type Stretch } from "../store/timeline";
import { covered, timeScale, FOLD_WIDTH, type Range, type TimeScale } from "../store/time_scale";
import { count } from "./amounts";
import { duration, moment, tickTime } from "./moment";
import { ProblemNote } from "./problem_note";
import { pixelsPerRem } from "./rem";

const LANES = ["people", "model", "tools", "subagents", "plugins", "timers"] as const;
const ROW = 16;
const MOST_ROWS = 4;
const LABELS = 84;
/** Spans that begin and end within so many pixels are drawn as one. */
const GRAIN = 4;
/** The most bars of a lane: beyond that, those that follow each other are drawn as one. */
const MOST_BARS = 100;
/** Height of the axis above the lanes. */
const AXIS = 20;
/** Fewer pixels have no room for a name; and how much a letter takes, in rem. */
const LEAST_NAME = 36;
const LETTER = 0.39;
/** How much the time of a tick takes, in rem. */
const TICK_ROOM = 4;
const BAD = /fail|error|block|abort|kill|reject|abandon|refus|broke|doubt/;

interface Bar {
  readonly span: Span;
  readonly x: number;
  readonly width: number;
  readonly row: number;
  /** How many spans it stands for. */
  readonly count: number;
}

interface LanesProps {
  readonly session: string;
  readonly number: number;
  readonly head: number;
  readonly choose: (number: number) => void;
}

export function Lanes({ session, number, head, choose }: LanesProps) {
  const timeline = useTimeline(session);
  const here = windowOf(number);
  const stretch = useSignal<Stretch>({ first: here, last: here });
  const range = useSignal<Range | null>(null);
  /** Where to move once the windows are there: a share of what is shown. */
  const move = useRef(0);
  useEffect(() => {
    const { first, last } = stretch.value;
    if (here >= first && here <= last) return;
    stretch.value = { first: here, last: here };
    range.value = null;
  }, [here]);
  useEffect(() => timeline.want(stretch.value, head), [timeline, stretch.value, head]);
  const version = timeline.version.value;
  const [rows, spans] = useMemo(() => [timeline.rows, timeline.spans], [timeline, version]);
  const whole = rows.length ? wholeRange(rows) : null;
  useEffect(() => {
    if (!move.current || !timeline.isWhole || !whole || !range.value) return;
    range.value = moved(range.value, whole, move.current);
    move.current = 0;
  }, [version]);
  if (timeline.problem.value) return <ProblemNote problem={timeline.problem.value} />;
  if (!whole) return <p class="hint">Loading the lanes …</p>;

  const shown = range.value ?? whole;
  const at = rows.find(({ record }) => record === number)?.at_ms ?? null;
  const grow = (side: -1 | 1) => (stretch.value = grown(stretch.value, side, head));
  const canGrow = (side: -1 | 1) => (side < 0 ? stretch.value.first > 0 : stretch.value.last < windowOf(head));
  const canWiden = stretch.value.last - stretch.value.first + 1 < MOST_WINDOWS && (canGrow(-1) || canGrow(1));
  const zoom = (factor: number) => {
    if (range.value === null && factor > 1) {
      if (!canWiden) return;
      grow(-1);
      grow(1);
    } else range.value = zoomed(shown, whole, at, factor);
  };
  const isAtEnd = (side: -1 | 1) => (side < 0 ? shown.from <= whole.from : shown.to >= whole.to);
  const pan = (side: -1 | 1) => {
    if (isAtEnd(side)) {
      move.current = range.value ? side / 2 : 0;
      grow(side);
    } else range.value = moved(shown, whole, side / 2);
  };
  return (
    <section class="lanes" aria-label="Lanes over time" aria-busy={!timeline.isWhole}>
      <div class="actions">
        <button type="button" onClick={() => zoom(0.5)}>
          Zoom in
        </button>
        <button type="button" disabled={range.value === null && !canWiden} onClick={() => zoom(2)}>
          Zoom out
        </button>
        <button type="button" disabled={isAtEnd(-1) && !canGrow(-1)} onClick={() => pan(-1)}>
          Earlier
        </button>
        <button type="button" disabled={isAtEnd(1) && !canGrow(1)} onClick={() => pan(1)}>
          Later
        </button>
        <span class="hint" role="status">
          Records {count(rows[0]?.record ?? 0)} to {count(rows.at(-1)?.record ?? 0)} of {count(head)}
          {range.value && ", of these a part"}: {duration(shown.to - shown.from)}.
        </span>
      </div>
      <Times spans={spans} range={shown} />
      <Drawing spans={spans} range={shown} at={at} number={number} choose={choose} zoom={zoom} />
    </section>
  );
}

const WAITED_FOR: ReadonlySet<string> = new Set(["approval", "question"]);

/** How long models, tools and people took, each by itself: the time of people is not that of tools. */
function Times({ spans, range }: { spans: readonly Span[]; range: Range }) {
  const rangeOf = ({ start_ms: from, end_ms: end }: Span) => ({ from, to: end ?? range.to });
  const models = spans.filter(({ lane }) => lane === "model").map(rangeOf);
  const tools = spans.flatMap((span) => (span.kind === "call" && span.ran_ms !== null ? [{ ...rangeOf(span), from: span.ran_ms }] : []));
  const people = spans.filter(({ kind }) => WAITED_FOR.has(kind)).map(rangeOf);
  return (
    <p class="hint lane-times">
      Models worked {duration(covered(models, range))}, tools {duration(covered(tools, range))}; it waited for people{" "}
      {duration(covered(people, range))}.
    </p>
  );
}

function wholeRange(rows: readonly { readonly at_ms: number }[]): Range {
  const times = rows.map(({ at_ms }) => at_ms);
  const from = Math.min(...times);
  return { from, to: Math.max(from + 1, ...times) };
}

function zoomed(range: Range, whole: Range, at: number | null, factor: number): Range | null {
  const length = Math.max(1, (range.to - range.from) * factor);
  if (length >= whole.to - whole.from) return null;
  const middle = at ?? (range.from + range.to) / 2;
  return within({ from: middle - length / 2, to: middle + length / 2 }, whole);
}

function moved(range: Range, whole: Range, share: number): Range {
  const by = (range.to - range.from) * share;
  return within({ from: range.from + by, to: range.to + by }, whole);
}

function within({ from, to }: Range, whole: Range): Range {
  const by = Math.max(0, whole.from - from) - Math.max(0, to - whole.to);
  return { from: from + by, to: to + by };
}

/** Places the spans of a lane that are in sight; those that touch lie below each other, and tiny ones are put together. */
function barsOf(spans: readonly Span[], range: Range, scale: TimeScale, width: number): Bar[] {
  const ends: number[] = [];
  const bars: Bar[] = [];
  for (const span of spans) {
    const end = span.end_ms ?? range.to;
    if (end < range.from || span.start_ms > range.to) continue;
    const x = Math.max(0, scale.x(span.start_ms));
    const length = Math.min(width, scale.x(end)) - x;
    const before = bars.at(-1);
    if (length < GRAIN && before && before.width < GRAIN && x - before.x < GRAIN) {
      bars[bars.length - 1] = { ...before, count: before.count + 1 };
      continue;
    }
    let row = ends.findIndex((used) => used <= x);
    if (row < 0) row = Math.min(ends.length, MOST_ROWS - 1);
    ends[row] = Math.max(ends[row] ?? 0, x + Math.max(length, GRAIN));
    bars.push({ span, x, width: Math.max(length, GRAIN - 1), row, count: 1 });
  }
  return thinned(bars);
}

/** Draws bars that follow each other as one, so that no lane has more than `MOST_BARS`. */
function thinned(bars: readonly Bar[]): Bar[] {
  const together = Math.ceil(bars.length / MOST_BARS);
  if (together <= 1) return [...bars];
  return Array.from({ length: Math.ceil(bars.length / together) }, (_, index) => {
    const some = bars.slice(index * together, (index + 1) * together) as [Bar, ...Bar[]];
    const [{ x, row, span }] = some;
    const end = Math.max(...some.map((bar) => bar.x + bar.width));
    return { span, x, row, width: end - x, count: some.reduce((sum, bar) => sum + bar.count, 0) };
  });
}

/** Returns when something works: models, sub-agents, and tools once they run; of all else the moments it begins and ends. */
function busyOf(spans: readonly Span[], range: Range): Range[] {
  return spans.flatMap(({ lane, start_ms: start, end_ms: end, ran_ms: ran, kind }) => {
    const to = end ?? range.to;
    const works = lane === "model" || (kind === "call" && ran !== null);
    const points = [start, to].map((at) => ({ from: at, to: at }));
    return works ? [...points, { from: ran ?? start, to }] : points;
  });
}

interface DrawingProps {
  readonly spans: readonly Span[];
  readonly range: Range;
  readonly at: number | null;
  readonly number: number;
  readonly choose: (number: number) => void;
  readonly zoom: (factor: number) => void;
}

function Drawing({ spans, range, at, number, choose, zoom }: DrawingProps) {
  const box = useRef<HTMLDivElement>(null);
  const width = useSignal(600);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => (width.value = Math.max(120, element.clientWidth - LABELS)));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const scale = useMemo(() => timeScale(busyOf(spans, range), range, width.value), [spans, range.from, range.to, width.value]);
  const lanes = useMemo(() => {
    let top = AXIS;
    return LANES.flatMap((name) => {
      const bars = barsOf(
        spans.filter(({ lane }) => lane === name),
        range,
        scale,
        width.value,
      );
      if (bars.length === 0) return [];
      const rows = Math.max(...bars.map(({ row }) => row)) + 1;
      const lane = { name, bars, top, height: rows * ROW + 6 };
      top += lane.height;
      return [lane];
    });
  }, [spans, range.from, range.to, scale]);
  const height = lanes.reduce((sum, lane) => sum + lane.height, AXIS);
  const cursor = at === null ? null : scale.x(at);
  const words = lanes.map(({ name, bars }) => `${name}: ${bars.reduce((sum, { count }) => sum + count, 0)}`).join(", ");
  return (
    <div
      ref={box}
      class="lanes-box"
      onWheel={(event) => {
        if (!event.ctrlKey) return; // the wheel alone scrolls the page
        event.preventDefault();
        zoom(event.deltaY < 0 ? 0.5 : 2);
      }}
    >
      <svg width={width.value + LABELS} height={height} role="img" aria-label={`Spans by lane: ${words || "none"}`}>
        <Axis scale={scale} height={height} width={width.value} />
        {lanes.map(({ name, bars, top, height: tall }) => (
          <g key={name} transform={`translate(0 ${top})`}>
            <line class="lane-line" x1={0} x2={width.value + LABELS} y1={tall - 1} y2={tall - 1} />
            <text class="lane-name" x={0} y={ROW - 3}>
              {name}
            </text>
            {bars.map(({ span, x, width: long, row, count }) => (
              <>
              <rect
                class="span"
                data-lane={name}
                data-bad={BAD.test(span.outcome) || undefined}
                data-chosen={span.first <= number && number <= (span.last ?? Infinity) ? true : undefined}
                x={x + LABELS}
                y={row * ROW + 2}
                width={long}
                height={ROW - 4}
                onClick={() => choose(span.first)}
              >
                <title>{spanTitle(span, count)}</title>
              </rect>
              {long >= LEAST_NAME && (
                <text class="span-name" x={x + LABELS + 4} y={row * ROW + ROW - 5}>
                  {nameWithin(count > 1 ? `${count} × ${span.label || span.kind}` : span.label || span.kind, long)}
                </text>
              )}
              </>
            ))}
          </g>
        ))}
        {cursor !== null && cursor >= 0 && cursor <= width.value && (
          <line class="lane-cursor" x1={cursor + LABELS} x2={cursor + LABELS} y1={0} y2={height} />
        )}
      </svg>
    </div>
  );
}

function nameWithin(name: string, width: number): string {
  const room = Math.floor((width - 8) / (LETTER * pixelsPerRem()));
  if (room < 2) return "";
  const plain = name.replace(/\p{C}/gu, "\u00b7");
  return plain.length > room ? `${plain.slice(0, Math.max(1, room - 1))}…` : plain;
}

/** The times above the lanes, and the waits that are folded. */
function Axis({ scale, height, width }: { scale: TimeScale; height: number; width: number }) {
  const room = TICK_ROOM * pixelsPerRem();
  return (
    <g>
      {scale.folds.map(({ from, to, x }) => (
        <g>
          <rect class="lane-fold" x={x + LABELS} y={0} width={FOLD_WIDTH} height={height}>
            <title>{`Nothing worked for ${duration(to - from)}`}</title>
          </rect>
          <text class="lane-name" x={x + LABELS + FOLD_WIDTH / 2} y={AXIS - 7} text-anchor="middle">
            {duration(to - from).split(" ").slice(0, 2).join(" ")}
          </text>
        </g>
      ))}
      {scale.ticks
        .filter(({ x }, index, all) => x <= width - room && (index === 0 || x - (all[index - 1]?.x ?? 0) >= room))
        .map(({ at, x }) => (
          <g>
            <line class="lane-line" x1={x + LABELS} x2={x + LABELS} y1={AXIS - 4} y2={height} />
            <text class="lane-name" x={x + LABELS + 2} y={AXIS - 7}>
              {tickTime(at, scale.step)}
              <title>{moment(at)}</title>
            </text>
          </g>
        ))}
    </g>
  );
}

function spanTitle({ kind, label, outcome, start_ms: start, end_ms: end, first }: Span, count: number): string {
  const long = end === null ? "still runs" : duration(end - start);
  const more = count > 1 ? `, and ${count - 1} more` : "";
  return `${kind} ${label}: ${outcome || "under way"}, ${long}, from record ${first} on${more}`;
}

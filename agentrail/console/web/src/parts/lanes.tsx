/** What ran when, in lanes over real time; it can be zoomed. The list of records tells the same to those who cannot see it. */
import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { View } from "../host/interface";
import { useAnswer } from "../store/answer";
import { duration } from "./moment";
import { ProblemNote } from "./problem_note";

type Span = View<"SpanView">;

/** Records whose spans are drawn together: those around the chosen one. */
const WINDOW = 500;
const LANES = ["people", "model", "tools", "subagents", "plugins", "timers"] as const;
const ROW = 16;
const MOST_ROWS = 4;
const LABELS = 84;
/** Spans that begin and end within so many pixels are drawn as one. */
const GRAIN = 4;
const BAD = /fail|error|block|abort|kill|reject|abandon|refus|broke|doubt/;

interface Range {
  readonly from: number;
  readonly to: number;
}

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
  const since = Math.floor((number - 1) / WINDOW) * WINDOW;
  const answer = useAnswer("timeline", session, { since, limit: Math.min(WINDOW, head - since) }).value;
  const timeline = answer.value;
  const range = useSignal<Range | null>(null);
  useEffect(() => {
    range.value = null;
  }, [since]);
  if (answer.problem) return <ProblemNote problem={answer.problem} />;
  if (!timeline) return <p class="hint">Loading the lanes …</p>;
  const whole = wholeRange(timeline.rows, timeline.spans);
  const shown = range.value ?? whole;
  const at = timeline.rows.find(({ record }) => record === number)?.at_ms ?? null;
  const zoom = (factor: number) => (range.value = zoomed(shown, whole, at, factor));
  const first = timeline.rows[0]?.record ?? 0;
  const last = timeline.rows.at(-1)?.record ?? 0;
  return (
    <section class="lanes" aria-label="Lanes over time" aria-busy={answer.isLate}>
      <div class="actions">
        <button type="button" onClick={() => zoom(0.5)}>
          Zoom in
        </button>
        <button type="button" disabled={range.value === null} onClick={() => zoom(2)}>
          Zoom out
        </button>
        <button type="button" disabled={range.value === null} onClick={() => (range.value = moved(shown, whole, -0.5))}>
          Earlier
        </button>
        <button type="button" disabled={range.value === null} onClick={() => (range.value = moved(shown, whole, 0.5))}>
          Later
        </button>
        <span class="hint">
          Records {first} to {last}; {duration(shown.to - shown.from)} are shown.
        </span>
      </div>
      <Drawing spans={timeline.spans} range={shown} at={at} number={number} choose={choose} zoom={zoom} />
    </section>
  );
}

function wholeRange(rows: readonly { readonly at_ms: number }[], spans: readonly Span[]): Range {
  const times = rows.map(({ at_ms }) => at_ms);
  const from = Math.min(...times);
  const last = Math.max(...times, ...spans.map(({ start_ms, end_ms }) => end_ms ?? start_ms).filter((end) => end < Infinity));
  return { from, to: Math.max(from + 1, Math.min(last, Math.max(...times))) };
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
function barsOf(spans: readonly Span[], range: Range, width: number): Bar[] {
  const scale = width / (range.to - range.from);
  const ends: number[] = [];
  const bars: Bar[] = [];
  for (const span of spans) {
    const end = span.end_ms ?? range.to;
    if (end < range.from || span.start_ms > range.to) continue;
    const x = Math.max(0, (span.start_ms - range.from) * scale);
    const length = Math.min(width, (end - range.from) * scale) - x;
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
  return bars;
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
  const lanes = useMemo(() => {
    let top = 0;
    return LANES.flatMap((name) => {
      const bars = barsOf(
        spans.filter(({ lane }) => lane === name),
        range,
        width.value,
      );
      if (bars.length === 0) return [];
      const rows = Math.max(...bars.map(({ row }) => row)) + 1;
      const lane = { name, bars, top, height: rows * ROW + 6 };
      top += lane.height;
      return [lane];
    });
  }, [spans, range.from, range.to, width.value]);
  const height = lanes.reduce((sum, lane) => sum + lane.height, 0);
  const cursor = at === null ? null : ((at - range.from) / (range.to - range.from)) * width.value;
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
        {lanes.map(({ name, bars, top, height: tall }) => (
          <g key={name} transform={`translate(0 ${top})`}>
            <line class="lane-line" x1={0} x2={width.value + LABELS} y1={tall - 1} y2={tall - 1} />
            <text class="lane-name" x={0} y={ROW - 3}>
              {name}
            </text>
            {bars.map(({ span, x, width: long, row, count }) => (
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

function spanTitle({ kind, label, outcome, start_ms: start, end_ms: end, first }: Span, count: number): string {
  const long = end === null ? "still runs" : duration(end - start);
  const more = count > 1 ? `, and ${count - 1} more` : "";
  return `${kind} ${label}: ${outcome || "under way"}, ${long}, from record ${first} on${more}`;
}

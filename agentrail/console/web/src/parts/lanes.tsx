/** What ran when, in lanes over real time; it can be zoomed. The list of records tells the same to those who cannot see it. */
import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { grown, isBad, MOST_WINDOWS, windowOf, type Shown, type Span, type Stretch, type Timeline } from "../store/timeline";
import { covered, timeScale, FOLD_WIDTH, type Range, type TimeScale } from "../store/time_scale";
import { count } from "./amounts";
import { Choice } from "./choice";
import { Icon, type IconName } from "./icon";
import { duration, moment, tickTime } from "./moment";
import { ProblemNote } from "./problem_note";
import { pixelsPerRem } from "./rem";

const LANES = ["people", "model", "tools", "subagents", "plugins", "timers"] as const;
const LANE_WORDS: Readonly<Record<string, string>> = {
  people: "People",
  model: "Model",
  tools: "Tools",
  subagents: "Sub-agents",
  plugins: "Plugins",
  timers: "Timers",
};
/** Height of a bar with what is around it, and of what is above and below the bars of a lane. */
const ROW = 22;
const PAD = 14;
const MOST_ROWS = 4;
const LABELS = 92;
/** Spans that begin and end within so many pixels are drawn as one. */
const GRAIN = 4;
/** The most bars of a lane: beyond that, those that follow each other are drawn as one. */
const MOST_BARS = 100;
/** Height of the axis above the lanes. */
const AXIS = 22;
/** Fewer pixels have no room for a name; and how much a letter takes, in rem. */
const LEAST_NAME = 36;
const LETTER = 0.39;
/** How much the time of a tick takes, in rem. */
const TICK_ROOM = 4;

interface Bar {
  readonly span: Span;
  readonly x: number;
  readonly width: number;
  readonly row: number;
  /** How many spans it stands for. */
  readonly count: number;
}

interface LanesProps {
  readonly timeline: Timeline;
  readonly number: number;
  readonly head: number;
  readonly choose: (number: number) => void;
  /** What of the records is shown: lanes of all else are left out. */
  readonly shown: Signal<Shown>;
}

export function Lanes({ timeline, number, head, choose, shown: part }: LanesProps) {
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
  const canZoomOut = range.value !== null || canWiden;
  const zoom = (factor: number) => {
    if (range.value === null && factor > 1) {
      if (!canWiden) return;
      grow(-1);
      grow(1);
    } else range.value = zoomed(shown, whole, at, factor);
  };
  const isAtEnd = (side: -1 | 1) => (side < 0 ? shown.from <= whole.from : shown.to >= whole.to);
  const canPan = (side: -1 | 1) => !isAtEnd(side) || canGrow(side);
  const pan = (side: -1 | 1) => {
    if (isAtEnd(side)) {
      move.current = range.value ? side / 2 : 0;
      grow(side);
    } else range.value = moved(shown, whole, side / 2);
  };
  const keys: Readonly<Record<string, () => void>> = {
    ArrowRight: () => choose(Math.min(head, number + 1)),
    ArrowLeft: () => choose(Math.max(1, number - 1)),
    Home: () => choose(1),
    End: () => choose(head),
    "+": () => zoom(0.5),
    "-": () => zoom(2),
    PageUp: () => canPan(-1) && pan(-1),
    PageDown: () => canPan(1) && pan(1),
  };
  const errors = spans.filter(isBad).length;
  const hasTimers = spans.some(({ lane }) => lane === "timers");
  return (
    <section class="lanes-part" aria-label="Lanes over time" aria-busy={!timeline.isWhole}>
      <div class="room-head">
        <Times spans={spans} range={shown} />
        <span class="grow" />
        <Choice
          label="Show"
          value={part.value}
          options={[
            ["all", "All", head],
            ["model", "Model"],
            ["tools", "Tools"],
            ["people", "People"],
            ...(hasTimers ? ([["timers", "Timers"]] as const) : []),
            ["errors", "Errors", errors],
          ]}
          choose={(next) => (part.value = next)}
        />
        <span class="line">
          <LaneButton label="Earlier" icon="left" disabled={!canPan(-1)} act={() => pan(-1)} />
          <LaneButton label="Later" icon="right" disabled={!canPan(1)} act={() => pan(1)} />
          <LaneButton label="Zoom out" icon="minus" disabled={!canZoomOut} act={() => zoom(2)} />
          <LaneButton label="Zoom in" icon="plus" act={() => zoom(0.5)} />
        </span>
      </div>
      <Drawing
        spans={part.value === "errors" ? spans.filter(isBad) : spans}
        lanes={lanesOf(part.value)}
        range={shown}
        at={at}
        number={number}
        choose={choose}
        zoom={zoom}
        keys={keys}
      />
      <p class="tiny soft" role="status">
        Records {count(rows[0]?.record ?? 0)} to {count(rows.at(-1)?.record ?? 0)} of {count(head)}
        {range.value && ", of these a part"}: {duration(shown.to - shown.from)}.
      </p>
    </section>
  );
}

function lanesOf(shown: Shown): readonly string[] {
  if (shown === "all") return LANES.filter((lane) => lane !== "timers");
  return shown === "errors" ? LANES : [shown];
}

function LaneButton(props: { label: string; icon: IconName; disabled?: boolean; act: () => void }) {
  return (
    <button type="button" class="square slim" aria-label={props.label} disabled={props.disabled} onClick={props.act}>
      <Icon name={props.icon} />
    </button>
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
    <p class="small soft lane-times">
      {duration(range.to - range.from)}: <b class="is-work">model {duration(covered(models, range))}</b> ·{" "}
      <b class="is-good">tools {duration(covered(tools, range))}</b> ·{" "}
      <b class="is-person">waited for people {duration(covered(people, range))}</b>
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

/** When a span is drawn from: a call from when it runs, as its wait for a person is theirs; null: it waits still. */
function startOf({ kind, ran_ms: ran, start_ms: start, end_ms: end }: Span): number | null {
  if (kind !== "call") return start;
  return ran ?? end;
}

/** Places the spans of a lane that are in sight; those that touch lie below each other, and tiny ones are put together. */
function barsOf(spans: readonly Span[], range: Range, scale: TimeScale, width: number): Bar[] {
  const ends: number[] = [];
  const bars: Bar[] = [];
  for (const span of spans) {
    const end = span.end_ms ?? range.to;
    const start = startOf(span);
    if (start === null || end < range.from || start > range.to) continue;
    const x = Math.max(0, scale.x(start));
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
  /** The lanes that are drawn, in their order. */
  readonly lanes: readonly string[];
  readonly keys: Readonly<Record<string, () => void>>;
  readonly range: Range;
  readonly at: number | null;
  readonly number: number;
  readonly choose: (number: number) => void;
  readonly zoom: (factor: number) => void;
}

function Drawing({ spans, lanes: names, range, at, number, choose, zoom, keys }: DrawingProps) {
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
    return names.flatMap((name) => {
      const bars = barsOf(
        spans.filter(({ lane }) => lane === name),
        range,
        scale,
        width.value,
      );
      if (bars.length === 0) return [];
      const rows = Math.max(...bars.map(({ row }) => row)) + 1;
      const lane = { name, bars, top, height: rows * ROW + PAD };
      top += lane.height;
      return [lane];
    });
  }, [spans, names.join(), range.from, range.to, scale]);
  const height = lanes.reduce((sum, lane) => sum + lane.height, AXIS);
  const cursor = at === null ? null : scale.x(at);
  const words = lanes.map(({ name, bars }) => `${name}: ${bars.reduce((sum, { count }) => sum + count, 0)}`).join(", ");
  return (
    <div
      ref={box}
      class="lanes"
      tabIndex={0}
      role="group"
      aria-label={`Lanes from ${moment(range.from)} to ${moment(range.to)}: arrow keys go through the records, plus and minus zoom, page up and down move`}
      onKeyDown={(event) => {
        const act = event.altKey || event.ctrlKey || event.metaKey ? undefined : keys[event.key];
        if (!act) return;
        event.preventDefault();
        act();
      }}
      onWheel={(event) => {
        if (!event.ctrlKey) return; // the wheel alone scrolls the page
        event.preventDefault();
        zoom(event.deltaY < 0 ? 0.5 : 2);
      }}
    >
      <svg width={width.value + LABELS} height={height} role="img" aria-label={`Spans by lane: ${words || "none"}`}>
        <defs>
          <pattern id="wait" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <rect class="wait-ground" width="6" height="6" />
            <line class="wait-line" x1="0" x2="0" y1="0" y2="6" />
          </pattern>
        </defs>
        <Axis scale={scale} height={height} width={width.value} />
        {lanes.map(({ name, bars, top, height: tall }) => (
          <g key={name} transform={`translate(0 ${top})`}>
            <line class="lane-line" x1={0} x2={width.value + LABELS} y1={0} y2={0} />
            <text class="lane-name" x={12} y={tall / 2 + 4}>
              {LANE_WORDS[name]}
            </text>
            {bars.map(({ span, x, width: long, row, count }) => {
              const isWait = WAITED_FOR.has(span.kind);
              const y = row * ROW + PAD / 2;
              return (
                <>
                  <rect
                    class={`span ${isWait ? "wait" : ""}`}
                    data-lane={name}
                    data-bad={(isBad(span) && !isWait) || undefined}
                    data-chosen={span.first <= number && number <= (span.last ?? Infinity) ? true : undefined}
                    x={x + LABELS}
                    y={y + 1}
                    width={long}
                    height={ROW - 2}
                    onClick={() => choose(span.first)}
                  >
                    <title>{spanTitle(span, count)}</title>
                  </rect>
                  {long >= LEAST_NAME && (
                    <text class={`span-name ${isWait ? "wait" : ""}`} x={x + LABELS + 7} y={y + ROW / 2 + 4}>
                      {nameWithin(count > 1 ? `${count} × ${nameOf(span)}` : nameOf(span), long)}
                    </text>
                  )}
                </>
              );
            })}
          </g>
        ))}
        {cursor !== null && cursor >= 0 && cursor <= width.value && (
          <line class="lane-cursor" x1={cursor + LABELS} x2={cursor + LABELS} y1={0} y2={height} />
        )}
      </svg>
    </div>
  );
}

function nameOf({ kind, label, end_ms: end }: Span): string {
  if (WAITED_FOR.has(kind)) return end === null ? "Waits for you" : "waited";
  return label || kind;
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

/** Where a time lies in a drawing: waits in which nothing works are folded, so that the work between them has the room. */

export interface Range {
  readonly from: number;
  readonly to: number;
}

/** A wait that is drawn with a fixed width. */
export interface Fold extends Range {
  readonly x: number;
}

export interface Tick {
  readonly x: number;
  readonly at: number;
}

export interface TimeScale {
  readonly x: (at: number) => number;
  readonly folds: readonly Fold[];
  readonly ticks: readonly Tick[];
  /** How far the ticks are from each other, in milliseconds. */
  readonly step: number;
}

/** How wide a folded wait is, in pixels. */
export const FOLD_WIDTH = 34;
const SHORTEST_FOLD_MS = 30_000;
/** A wait of a smaller share of what is shown is not in the way. */
const LEAST_SHARE = 0.15;
const TICK_WIDTH = 110;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 108e5, 216e5, 432e5, 864e5];

/** Returns the stretches of *range* in which none of *busy* is, longest waits only. */
function waitsOf(busy: readonly Range[], range: Range): Range[] {
  const least = Math.max(SHORTEST_FOLD_MS, (range.to - range.from) * LEAST_SHARE);
  const waits: Range[] = [];
  let end = range.from;
  for (const { from, to } of [...busy].sort((left, right) => left.from - right.from)) {
    const until = Math.min(from, range.to);
    if (until - end > least) waits.push({ from: end, to: until });
    end = Math.max(end, to);
  }
  if (range.to - end > least) waits.push({ from: end, to: range.to });
  return waits;
}

/** Returns how long at least one of *ranges* was within *shown*, in milliseconds. */
export function covered(ranges: readonly Range[], shown: Range): number {
  let [sum, end] = [0, shown.from];
  for (const { from, to } of [...ranges].sort((left, right) => left.from - right.from)) {
    const [start, until] = [Math.max(from, end), Math.min(to, shown.to)];
    sum += Math.max(0, until - start);
    end = Math.max(end, until);
  }
  return sum;
}

/** Makes the scale of *range* over *width* pixels; *busy* is what works, points included. */
export function timeScale(busy: readonly Range[], range: Range, width: number): TimeScale {
  const waits = waitsOf(busy, range);
  const folded = waits.reduce((sum, { from, to }) => sum + to - from, 0);
  const shown = Math.max(1, range.to - range.from - folded);
  const perMs = Math.max(0, width - waits.length * FOLD_WIDTH) / shown;
  const x = (at: number): number => {
    let pixels = (at - range.from) * perMs;
    for (const { from, to } of waits) {
      if (at <= from) break;
      const part = Math.min(1, (at - from) / (to - from));
      pixels += part * FOLD_WIDTH - (Math.min(at, to) - from) * perMs;
    }
    return pixels;
  };
  const folds = waits.map((wait) => ({ ...wait, x: x(wait.from) }));
  const wanted = perMs ? TICK_WIDTH / perMs : range.to - range.from;
  const step = STEPS.find((size) => size >= wanted) ?? wanted;
  return { x, folds, step, ticks: ticksOf(range, waits, step, x) };
}

function ticksOf(range: Range, waits: readonly Range[], step: number, x: (at: number) => number): Tick[] {
  const ticks: Tick[] = [];
  const add = ({ from, to }: Range) => {
    const first = Math.ceil(from / step) * step;
    for (let at = first; at <= to; at += step) ticks.push({ at, x: x(at) });
    if (first > to) ticks.push({ at: from, x: x(from) }); // so that each stretch says when it is
  };
  let from = range.from;
  for (const wait of waits) {
    add({ from, to: wait.from });
    from = wait.to;
  }
  add({ from, to: range.to });
  return ticks;
}

/**
 * A plot over time, by uPlot: stacked bars or lines. A stretch of time is chosen by dragging over it, or with the arrow
 * keys and Enter. Whoever shows it has its numbers in a legend and a table too.
 */
import { useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { theme } from "../theme";
import { tickTime } from "./moment";

export interface Line {
  readonly name: string;
  /** Class of its colour, as `.key` has it. */
  readonly key: string;
  /** Its values at the times of the plot; null: none is known. */
  readonly values: readonly (number | null)[];
  /** Whether it counts what went wrong, of which each is to be seen. */
  readonly isBad?: boolean;
}

export interface PlotProps {
  readonly label: string;
  /** Times in milliseconds since 1970, and how long each stretch is. */
  readonly times: readonly number[];
  readonly step: number;
  readonly lines: readonly Line[];
  readonly isStacked: boolean;
  /** From when to when it goes, in milliseconds since 1970. */
  readonly from: number;
  readonly to: number;
  readonly format: (value: number) => string;
  /** Called with the stretch of time that was chosen, in milliseconds since 1970. */
  readonly choose?: (from: number, to: number) => void;
}

const HEIGHT = 180;
/** The fewest pixels of a stretch that was meant. */
const LEAST = 4;
/** The fewest pixels of what went wrong. */
const LEAST_BAD = 2.5;

/** Distances of the lines where things are counted: there is nothing between two numbers. */
const WHOLE = Array.from({ length: 10 }, (_, digits) => [1, 2, 5].map((first) => first * 10 ** digits)).flat();

/** Returns the colours of classes or properties, as the page has them now. */
function colours(names: readonly string[]): string[] {
  const probe = document.createElement("span");
  document.body.append(probe);
  const found = names.map((name) => {
    const isToken = name.startsWith("--");
    probe.className = isToken ? "" : name;
    probe.style.color = `var(${isToken ? name : "--k"})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return found;
}

/** Adds up the values of *lines*, the last one being the highest; what went wrong is never too thin to be seen. */
function stacked(lines: readonly Line[], count: number): number[][] {
  const sums = Array.from({ length: count }, (_, at) => lines.reduce((sum, { values }) => sum + (values[at] ?? 0), 0));
  const least = (Math.max(0, ...sums) * LEAST_BAD) / (HEIGHT - 40);
  const below = new Array<number>(count).fill(0);
  return lines.map(({ values, isBad }) => {
    const row = Array.from({ length: count }, (_, at) => {
      const value = values[at] ?? 0;
      return (below[at] ?? 0) + (isBad && value > 0 ? Math.max(value, least) : value);
    });
    row.forEach((value, at) => (below[at] = value));
    return row;
  });
}

export function Plot(props: PlotProps) {
  const { label, times, step, lines, isStacked, from, to, format } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const chosen = useRef(props.choose);
  chosen.current = props.choose;
  /** The stretches that the keyboard has marked, by their numbers. */
  const mark = useRef<{ start: number; end: number } | null>(null);
  const scheme = theme.value;
  // together with the table: who reaches for a plot that is about to be drawn anew chooses nothing
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const [ink = "", grid = "", ground = ""] = colours(["--text-2", "--line", "--raised"]);
    const inks = colours(lines.map(({ key }) => key));
    const values = isStacked ? stacked(lines, times.length) : lines.map((line) => [...line.values]);
    const isCounted = lines.every((line) => line.values.every((value) => value === null || Number.isInteger(value)));
    // Of a stack, the highest is drawn first, and the others over it
    const order = lines.map((_, index) => (isStacked ? lines.length - 1 - index : index));
    const bars = uPlot.paths.bars?.({ size: [0.85, 40], align: 1 });
    const font = '11px "Geist", system-ui, sans-serif';
    const drawn = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height: HEIGHT,
        ms: 1,
        padding: [8, 4, 0, 0],
        scales: { x: { range: () => [from, to] }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
        legend: { show: false },
        cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
        axes: [
          {
            stroke: ink,
            font,
            grid: { show: false },
            ticks: { show: false },
            size: 28,
            space: 90,
            values: (_, ticks, __, ___, size) => ticks.map((at) => tickTime(at, size)),
          },
          { stroke: ink, font, grid: { stroke: grid, width: 1 }, ticks: { show: false }, size: 64, space: 40, ...(isCounted && { incrs: WHOLE }), values: (_, ticks) => ticks.map(format) },
        ],
        series: [
          {},
          ...order.map((index) => ({
            label: lines[index]?.name ?? "",
            stroke: isStacked ? ground : (inks[index] ?? ink),
            fill: isStacked ? (inks[index] ?? ink) : undefined,
            width: isStacked ? 1 : 1.75,
            paths: isStacked ? bars : undefined,
            points: { show: !isStacked && times.length < 3 },
          })),
        ],
        hooks: {
          setSelect: [
            ({ select, posToVal }) => {
              if (select.width < LEAST || mark.current) return;
              chosen.current?.(posToVal(select.left, "x"), posToVal(select.left + select.width, "x"));
            },
          ],
        },
      } as uPlot.Options,
      [[...times], ...order.map((index) => values[index] ?? [])],
      element,
    );
    plot.current = drawn;
    const watch = new ResizeObserver(() => drawn.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      drawn.destroy();
      plot.current = null;
      mark.current = null;
    };
  }, [times, lines, from, to, format, scheme]);

  const show = () => {
    const { start, end } = mark.current ?? {};
    if (!plot.current || start === undefined || end === undefined) return;
    const [first = 0, last = 0] = [times[Math.min(start, end)], (times[Math.max(start, end)] ?? 0) + step];
    const left = plot.current.valToPos(first, "x");
    plot.current.setSelect({ left, top: 0, width: plot.current.valToPos(Math.min(last, to), "x") - left, height: HEIGHT }, false);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const { start, end } = mark.current ?? { start: by === 1 ? -1 : times.length, end: by === 1 ? -1 : times.length };
    if (by !== undefined) {
      const next = Math.min(Math.max(end + by, 0), times.length - 1);
      mark.current = { start: event.shiftKey && mark.current ? start : next, end: next };
      show();
    } else if (event.key === "Enter" && mark.current) {
      chosen.current?.(times[Math.min(start, end)] ?? from, Math.min((times[Math.max(start, end)] ?? to) + step, to));
    } else if (event.key === "Escape" && mark.current) {
      mark.current = null;
      plot.current?.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    } else return;
    event.preventDefault();
  };
  return (
    <div
      ref={box}
      class="plot"
      role="group"
      tabIndex={0}
      aria-label={`${label}. Arrow keys mark a time, with Shift a longer one, and Enter shows its sessions`}
      onPointerDown={() => (mark.current = null)}
      onKeyDown={onKeyDown}
    />
  );
}

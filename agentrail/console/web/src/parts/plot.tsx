/** Lines over time, by uPlot; a stretch of time can be chosen with the pointer. Whoever shows it has its numbers in a table too. */
import { useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { theme } from "../theme";
import { tickTime } from "./moment";

export interface Line {
  readonly name: string;
  /** Its values at the times of the plot; null: none is known. */
  readonly values: readonly (number | null)[];
}

interface PlotProps {
  readonly label: string;
  /** Times in milliseconds since 1970. */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  /** From when to when it goes, in milliseconds since 1970. */
  readonly from: number;
  readonly to: number;
  readonly format: (value: number) => string;
  /** Called with the stretch of time that was chosen, in milliseconds since 1970. */
  readonly choose?: (from: number, to: number) => void;
}

const HEIGHT = 240;
/** The fewest pixels of a stretch that was meant. */
const LEAST = 4;
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]] as const;

function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

export function Plot({ label, times, lines, from, to, format, choose }: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const chosen = useRef(choose);
  chosen.current = choose;
  const scheme = theme.value;
  // together with the table: who reaches for a plot that is about to be drawn anew chooses nothing
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const ink = colour("--text-2");
    const inks = ["--accent", "--good", "--warn", "--bad"].map(colour);
    const plot = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height: HEIGHT,
        ms: 1,
        scales: { x: { range: () => [from, to] } },
        legend: { show: false },
        cursor: { drag: { x: true, y: false, setScale: false } },
        axes: [
          {
            stroke: ink,
            grid: { stroke: colour("--ground-3") },
            space: 70,
            values: (_, ticks, __, ___, step) => ticks.map((at) => tickTime(at, step)),
          },
          { stroke: ink, grid: { stroke: colour("--ground-3") }, size: 70, values: (_, ticks) => ticks.map(format) },
        ],
        series: [
          {},
          ...lines.map(({ name }, index) => ({
            label: name,
            stroke: inks[index % inks.length] ?? ink,
            dash: [...(DASHES[Math.floor(index / inks.length) % DASHES.length] ?? [])],
            width: 2,
            points: { show: times.length < 60 },
          })),
        ],
        hooks: {
          setSelect: [
            ({ select, posToVal }) => {
              if (select.width < LEAST) return;
              chosen.current?.(posToVal(select.left, "x"), posToVal(select.left + select.width, "x"));
            },
          ],
        },
      },
      [[...times], ...lines.map(({ values }) => [...values])],
      element,
    );
    const watch = new ResizeObserver(() => plot.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [times, lines, from, to, format, scheme]);
  return <div ref={box} class="plot" role="img" aria-label={label} />;
}

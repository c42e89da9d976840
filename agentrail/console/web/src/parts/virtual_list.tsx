/** A grid of any number of rows of the same height, of which only those in sight are in the page. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import { pixelsPerRem } from "./rem";

/** Rows that are in the page beyond those in sight. */
const AROUND = 6;

export interface VirtualListProps<Row> {
  readonly rows: readonly Row[];
  readonly label: string;
  /** Titles of the columns. */
  readonly columns: readonly string[];
  readonly idOf: (row: Row) => string;
  /** The cells of a row, one for each column. */
  readonly cells: (row: Row) => readonly ComponentChildren[];
  /** Level of a row in a tree, from 1; without it, the rows are no tree. */
  readonly levelOf?: (row: Row) => number;
  /** Whether the rows below a row are shown; null: it has none. */
  readonly isOpen?: (row: Row) => boolean | null;
  readonly setOpen?: (row: Row, isOpen: boolean) => void;
  readonly chosen: string | null;
  readonly choose: (id: string) => void;
  /** Called for Enter and for a double click. */
  readonly open?: (row: Row) => void;
  /** Called with how many rows there are up to the last one in sight or near it. */
  readonly reach?: (last: number) => void;
  /** Height of a row in rem. */
  readonly height?: number;
}

export function VirtualList<Row>(props: VirtualListProps<Row>) {
  const { rows, idOf, chosen, choose, height = 2.25 } = props;
  const name = useId();
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const seen = useSignal(800);
  const rowPixels = height * pixelsPerRem();
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => (seen.value = element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const at = rows.findIndex((row) => idOf(row) === chosen);
  useEffect(() => {
    const element = box.current;
    if (!element || at < 0) return;
    const from = at * rowPixels;
    const head = rowPixels; // the row of the titles stays on top
    if (from < element.scrollTop) element.scrollTop = from;
    else if (from + rowPixels + head > element.scrollTop + element.clientHeight) {
      element.scrollTop = from + rowPixels + head - element.clientHeight;
    }
  }, [chosen]);
  const first = Math.max(0, Math.floor(top.value / rowPixels) - AROUND);
  const last = Math.min(rows.length, Math.ceil((top.value + seen.value) / rowPixels) + AROUND);
  useEffect(() => props.reach?.(last), [last, rows.length]);
  const page = Math.max(1, Math.floor(seen.value / rowPixels) - 2);

  const move = (to: number) => {
    const row = rows[Math.min(Math.max(to, 0), rows.length - 1)];
    if (row !== undefined) choose(idOf(row));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[at];
    const steps: Record<string, () => void> = {
      ArrowDown: () => move(at + 1),
      ArrowUp: () => move(at < 0 ? 0 : at - 1),
      PageDown: () => move(at + page),
      PageUp: () => move(at - page),
      Home: () => move(0),
      End: () => move(rows.length - 1),
      ArrowRight: () => row !== undefined && props.isOpen?.(row) === false && props.setOpen?.(row, true),
      ArrowLeft: () => row !== undefined && props.isOpen?.(row) === true && props.setOpen?.(row, false),
      Enter: () => row !== undefined && props.open?.(row),
    };
    const step = steps[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    step();
  };

  return (
    <div
      ref={box}
      class="list"
      role={props.levelOf ? "treegrid" : "grid"}
      aria-label={props.label}
      aria-rowcount={rows.length + 1}
      aria-colcount={props.columns.length}
      aria-activedescendant={at >= first && at < last ? `${name}-${at}` : undefined}
      tabIndex={0}
      onKeyDown={onKeyDown}
      onScroll={(event) => (top.value = event.currentTarget.scrollTop)}
    >
      <div class="list-head list-row" role="row" aria-rowindex={1} style={{ height: `${height}rem` }}>
        {props.columns.map((title) => (
          <span role="columnheader" class="list-cell">
            {title}
          </span>
        ))}
      </div>
      <div role="rowgroup" class="list-rows" style={{ height: `${rows.length * height}rem` }}>
        {rows.slice(first, last).map((row, index) => {
          const number = first + index;
          const id = idOf(row);
          const isOpen = props.isOpen?.(row) ?? null;
          return (
            <div
              key={id}
              id={`${name}-${number}`}
              class="list-row"
              role="row"
              aria-rowindex={number + 2}
              aria-level={props.levelOf?.(row)}
              aria-expanded={isOpen ?? undefined}
              aria-selected={id === chosen}
              style={{ transform: `translateY(${number * height}rem)`, height: `${height}rem` }}
              onClick={() => choose(id)}
              onDblClick={() => props.open?.(row)}
            >
              {props.cells(row).map((cell) => (
                <span role="gridcell" class="list-cell">
                  {cell}
                </span>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}

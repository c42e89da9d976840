/**
 * A table as high as what it holds, which scrolls with the page: of any number of rows of the same height, those near
 * the window are in the page, between two bodies that stand for the others.
 */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import { usePageKeys } from "./page_keys";
import { isPhone } from "./phone";
import { pixelsPerRem } from "./rem";

/** Rows that are in the page above and below those in sight; the first one moves by as many. */
const AROUND = 6;

export interface Column {
  readonly title: string;
  /** Whether its title is read aloud alone. */
  readonly isSilent?: boolean;
  /** Share of the width, such as `20%`; without it, what is left. */
  readonly width?: string;
  /** Whether it has numbers, which stand at its end. */
  readonly isNumber?: boolean;
  /** Whether a telephone has no room for it. */
  readonly isExtra?: boolean;
  /** Whether a window of middle width has none either. */
  readonly isWide?: boolean;
}

export interface TableProps<Row> {
  readonly rows: readonly Row[];
  readonly label: string;
  readonly columns: readonly Column[];
  /** Whether the titles of the columns are read aloud alone. */
  readonly hasHiddenHead?: boolean;
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
  /** Whether the row that is chosen at first is brought into sight. */
  readonly mustShow?: boolean;
  /** Called for Enter. */
  readonly open?: (row: Row) => void;
  /** Whether a click opens a row, and does not only choose it. */
  readonly opensByClick?: boolean;
  /** Called with how many rows there are up to the last one in the page. */
  readonly reach?: (last: number) => void;
  /** Height of a row in rem, and on a telephone. */
  readonly height?: number;
  readonly phoneHeight?: number;
}

export function Table<Row>(props: TableProps<Row>) {
  const { rows, columns, idOf, chosen, choose, height = 2.25, phoneHeight = 3.75 } = props;
  const name = useId();
  const table = useRef<HTMLTableElement>(null);
  const head = useRef<HTMLTableSectionElement>(null);
  /** Number of the first row in the page, and how many there are. */
  const stretch = useSignal({ first: 0, size: 3 * AROUND });
  const rem = isPhone.value ? phoneHeight : height;
  const rowPixels = rem * pixelsPerRem();
  const at = rows.findIndex((row) => idOf(row) === chosen);
  /** Where the first row would begin, in pixels below the top of the window. */
  const start = () => head.current?.getBoundingClientRect().height ?? 0;
  const rowsTop = () => (table.current?.getBoundingClientRect().top ?? 0) + (props.hasHiddenHead || isPhone.value ? 0 : start());

  useLayoutEffect(() => {
    const look = () => {
      const seen = Math.ceil(innerHeight / rowPixels);
      const size = Math.ceil(seen / AROUND + 3) * AROUND;
      const top = Math.floor(Math.max(0, -rowsTop()) / rowPixels);
      const first = Math.max(0, Math.min(Math.floor(top / AROUND - 1), Math.ceil((rows.length - size) / AROUND)) * AROUND);
      if (first !== stretch.value.first || size !== stretch.value.size) stretch.value = { first, size };
    };
    look();
    const watch = new ResizeObserver(look); // also what stands above it may grow
    watch.observe(document.body);
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      watch.disconnect();
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [rows.length, rowPixels]);

  const isFirst = useRef(true);
  useEffect(() => {
    const mustShow = !isFirst.current || props.mustShow;
    if (rows.length) isFirst.current = false;
    if (mustShow && at >= 0) bringIntoSight(rowsTop() + at * rowPixels, rowPixels, stickyBottom(head.current));
  }, [chosen, rows.length > 0]);

  const { size } = stretch.value;
  const first = Math.min(stretch.value.first, Math.max(0, Math.ceil((rows.length - size) / AROUND) * AROUND));
  const last = Math.min(rows.length, first + size);
  useEffect(() => props.reach?.(last), [last, rows.length]);
  const keepFocus = useKeptFocus(table, `${first} ${rows.length}`);
  const move = (to: number) => {
    const row = rows[Math.min(Math.max(to, 0), rows.length - 1)];
    if (row !== undefined) choose(idOf(row));
  };
  const page = Math.max(1, Math.floor(innerHeight / rowPixels) - 3);
  const steps: Record<string, () => void> = {
    ArrowDown: () => move(at + 1),
    ArrowUp: () => move(at < 0 ? 0 : at - 1),
    j: () => move(at + 1),
    k: () => move(at < 0 ? 0 : at - 1),
    PageDown: () => move(at + page),
    PageUp: () => move(at - page),
    Home: () => move(0),
    End: () => move(rows.length - 1),
  };
  const row = rows[at];
  if (row !== undefined) {
    if (props.isOpen?.(row) === false) steps["ArrowRight"] = () => props.setOpen?.(row, true);
    if (props.isOpen?.(row) === true) steps["ArrowLeft"] = () => props.setOpen?.(row, false);
    if (props.open) steps["Enter"] = () => props.open?.(row);
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = steps[event.key];
    if (!step || event.target !== event.currentTarget || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    step();
  };
  usePageKeys({ j: () => (table.current?.focus({ preventScroll: true }), move(at + 1)), k: () => (table.current?.focus({ preventScroll: true }), move(at - 1)) });

  return (
    <table
      ref={table}
      class="list"
      role={props.levelOf ? "treegrid" : "grid"}
      aria-label={props.label}
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length}
      aria-activedescendant={at >= first && at < last ? `${name}-${at}` : undefined}
      tabIndex={0}
      onKeyDown={onKeyDown}
      onFocusIn={keepFocus}
    >
      <colgroup>
        {columns.map((column) => (
          <col class={kindOf(column)} style={{ width: column.width ?? "auto" }} />
        ))}
      </colgroup>
      <thead ref={head} role="rowgroup" class={props.hasHiddenHead ? "only-read" : undefined}>
        <tr role="row" aria-rowindex={1}>
          {columns.map((column) => (
            <th role="columnheader" scope="col" class={kindOf(column)}>
              {column.isSilent ? <span class="only-read">{column.title}</span> : column.title}
            </th>
          ))}
        </tr>
      </thead>
      <Others rows={first} rem={rem} />
      <tbody role="rowgroup">
        {rows.slice(first, last).map((row, index) => {
          const number = first + index;
          const id = idOf(row);
          const level = props.levelOf?.(row);
          return (
            <tr
              key={number % size}
              id={`${name}-${number}`}
              role="row"
              data-id={id}
              data-level={level}
              aria-rowindex={number + 2}
              aria-level={level}
              aria-expanded={props.isOpen?.(row) ?? undefined}
              aria-selected={id === chosen}
              style={{ height: `${rem}rem` }}
              onClick={(event) => (props.opensByClick ? isPlain(event) && props.open?.(row) : choose(id))}
            >
              {props.cells(row).map((cell, column) => (
                <td role="gridcell" class={kindOf(columns[column])}>
                  {cell}
                </td>
              ))}
            </tr>
          );
        })}
      </tbody>
      <Others rows={rows.length - last} rem={rem} />
    </table>
  );
}

function kindOf(column: Column | undefined): string | undefined {
  const kinds = [column?.isNumber && "num", column?.isExtra && "extra", column?.isWide && "wide"].filter(Boolean);
  return kinds.length ? kinds.join(" ") : undefined;
}

/** Whether a click is meant for the row, and not for a link or a button in it. */
function isPlain({ target }: MouseEvent): boolean {
  return target instanceof Element && !target.closest("a, button, [popover]");
}

/** Stands for rows that are not in the page. */
function Others({ rows, rem }: { rows: number; rem: number }) {
  return <tbody aria-hidden="true" role="presentation" class="others" style={{ height: `${rows * rem}rem` }} hidden={rows === 0} />;
}

/** Gives the focus to the table when the row that has it leaves the page, or becomes another one. */
function useKeptFocus(table: { readonly current: HTMLElement | null }, what: string): (event: FocusEvent) => void {
  const focused = useRef<{ element: Element; id: string | undefined } | null>(null);
  const rowOf = (element: Element) => element.closest<HTMLElement>("tr")?.dataset["id"];
  useLayoutEffect(() => {
    const { element, id } = focused.current ?? {};
    if (!element || (document.activeElement !== element && document.activeElement !== document.body)) return;
    if (element.isConnected && (rowOf(element) === id || document.activeElement !== element)) return;
    table.current?.focus({ preventScroll: true });
  }, [what]);
  return ({ target }) => {
    const isRow = target instanceof Element && target !== table.current;
    focused.current = isRow ? { element: target, id: rowOf(target) } : null;
  };
}

/** Returns down to where what sticks to the top of the window covers rows. */
function stickyBottom(head: HTMLElement | null): number {
  const title = head?.querySelector("th");
  if (!title) return 0;
  const top = Number.parseFloat(getComputedStyle(title).top) || 0;
  return top + (head?.classList.contains("only-read") ? 0 : title.getBoundingClientRect().height);
}

/** How much of the window is kept free below a row that is brought into sight. */
const BELOW = 64;

function bringIntoSight(top: number, height: number, from: number): void {
  const to = innerHeight - BELOW;
  if (top < from) scrollBy({ top: top - from });
  else if (top + height > to) scrollBy({ top: top + height - to });
}

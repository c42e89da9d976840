/** The rows of the supervision tree that fit a query, as they change. */
import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { Problem, QueryOf, View } from "../host/interface";

export type Row = View<"RowView">;

/** A row with its place in the tree. */
export interface TreeRow {
  readonly row: Row;
  /** From 1. */
  readonly level: number;
  /** Whether the rows below it are shown; null if it has none. */
  readonly isOpen: boolean | null;
}

export interface Rows {
  readonly rows: ReadonlyMap<string, Row>;
  readonly matching: number;
  readonly total: number;
  /** Addresses of hosts of the same cluster that do not answer, so theirs is left out. */
  readonly missing: readonly string[];
}

const NONE: Rows = { rows: new Map(), matching: 0, total: 0, missing: [] };

/** Follows the rows that fit *query*; null: none is asked for. */
export function useRows(query: QueryOf<"rows"> | null): {
  readonly rows: ReadonlySignal<Rows | null>;
  readonly problem: ReadonlySignal<Problem | null>;
} {
  const host = useHost();
  const rows = useSignal<Rows | null>(null);
  const problem = useSignal<Problem | null>(null);
  const name = JSON.stringify(query);
  useEffect(() => {
    if (query === null) return undefined;
    let known = new Map<string, Row>();
    return host.listenToRows(query, {
      data: ({ changed, matching, total, first, missing = [] }) => {
        if (first) known = new Map();
        for (const [session, row] of Object.entries(changed)) {
          if (row === null) known.delete(session);
          else known.set(session, row);
        }
        problem.value = null;
        // Of a list that is sent anew, the first part is fewer rows than are shown: the place of the reader would be lost
        if (known.size >= Math.min(rows.value?.rows.size ?? 0, matching)) {
          rows.value = { rows: known, matching, total, missing };
        }
      },
      end: (found) => {
        problem.value = found;
        rows.value = NONE;
      },
    });
  }, [host, name]);
  return { rows, problem };
}

/** Returns *rows* in the order of the tree, without those below rows that are closed. */
export function inTree(rows: readonly Row[], closed: ReadonlySet<string>): TreeRow[] {
  const below = new Map<string, Row[]>();
  const roots: Row[] = [];
  const names = new Set(rows.map(({ session }) => session));
  for (const row of rows) {
    const parent = names.has(row.parent) ? row.parent : "";
    if (!parent) roots.push(row);
    else if (!below.get(parent)?.push(row)) below.set(parent, [row]);
  }
  const shown: TreeRow[] = [];
  const add = (row: Row, level: number) => {
    const children = below.get(row.session);
    const isOpen = children ? !closed.has(row.session) : null;
    shown.push({ row, level, isOpen });
    if (isOpen) for (const child of children ?? []) add(child, level + 1);
  };
  for (const row of roots) add(row, 1);
  return shown;
}

/** What ran when in a session: a stretch of its records, loaded a window at a time, and anew when it has grown. */
import { signal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { Problem, View } from "../host/interface";
import { GivenUp, Refused, type HostSocket } from "../host/socket";

export type Span = View<"SpanView">;

const BAD = /fail|error|block|abort|kill|reject|abandon|refus|broke|doubt/;

/** Whether *span* ended otherwise than well. */
export function isBad({ outcome }: Span): boolean {
  return BAD.test(outcome);
}

/** What of the records is shown: all, those of a lane, or those at which something went wrong. */
export type Shown = "all" | "model" | "tools" | "people" | "timers" | "errors";

/** Records of a window. */
export const WINDOW = 500;
/** The most windows that are shown together. */
export const MOST_WINDOWS = 4;
const SETTLED_MS = 80;
/** The host goes through all records for each window, so one that grows is asked for again after so long. */
const AGAIN_MS = 1_000;

/** Windows that follow each other, by their numbers from 0; the last one is among them. */
export interface Stretch {
  readonly first: number;
  readonly last: number;
}

/** Returns the number of the window that has a record. */
export function windowOf(record: number): number {
  return Math.floor(Math.max(0, record - 1) / WINDOW);
}

/** Returns *stretch* with one more window before it (-1) or after it (1), within those up to record *head*. */
export function grown({ first, last }: Stretch, side: -1 | 1, head: number): Stretch {
  if (side < 0) {
    const before = Math.max(0, first - 1);
    return { first: before, last: Math.min(last, before + MOST_WINDOWS - 1) };
  }
  const after = Math.min(windowOf(head), last + 1);
  return { first: Math.max(first, after - MOST_WINDOWS + 1), last: after };
}

export class Timeline {
  readonly #version = signal(0);
  /** It changes when windows have come. */
  readonly version: ReadonlySignal<number> = this.#version;
  readonly #problem = signal<Problem | null>(null);
  readonly problem: ReadonlySignal<Problem | null> = this.#problem;
  readonly #windows = new Map<number, View<"TimelineView">>();
  readonly #ending = new AbortController();
  #stretch: Stretch = { first: 0, last: 0 };
  #head = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isLoading = false;

  constructor(
    private readonly host: HostSocket,
    readonly session: string,
  ) {}

  end(): void {
    clearTimeout(this.#timer);
    this.#ending.abort();
  }

  /** Says which windows are in sight, and the number of the last record. */
  want(stretch: Stretch, head: number): void {
    this.#stretch = stretch;
    this.#head = head;
    const isGone = [...this.#windows.keys()].filter((window) => window < stretch.first || window > stretch.last);
    for (const window of isGone) this.#windows.delete(window);
    if (isGone.length) this.#version.value += 1;
    this.#loadSoon(this.#missing() === undefined ? AGAIN_MS : SETTLED_MS);
  }

  /** Whether all windows in sight are there, also if some have grown since. */
  get isWhole(): boolean {
    return this.#missing() === undefined;
  }

  /** The rows of the windows that are there, in order. */
  get rows(): View<"TimelineRowView">[] {
    return this.#inOrder().flatMap(({ rows }) => rows);
  }

  /** The spans of these windows in the order in which they began, each once, as the last window has it. */
  get spans(): Span[] {
    const spans = new Map<string, Span>();
    for (const window of this.#inOrder()) {
      for (const span of window.spans) spans.set(`${span.kind} ${span.id} ${span.first}`, span);
    }
    return [...spans.values()].sort((left, right) => left.start_ms - right.start_ms);
  }

  #inOrder(): View<"TimelineView">[] {
    return [...this.#windows].sort(([left], [right]) => left - right).map(([, window]) => window);
  }

  #missing(): number | undefined {
    for (let window = this.#stretch.last; window >= this.#stretch.first; window -= 1) {
      if (!this.#windows.has(window)) return window;
    }
    return undefined;
  }

  /** Returns a window that has got records, or in which something ran that may have ended since. */
  #outdated(): number | undefined {
    for (const [window, { rows, spans, head }] of this.#windows) {
      if (head < this.#head && (rows.length < WINDOW || spans.some(({ last }) => last === null))) return window;
    }
    return undefined;
  }

  #loadSoon(ms: number): void {
    if (this.#isLoading || (this.#timer !== undefined && ms > SETTLED_MS)) return; // it comes after that
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#load(), ms);
  }

  async #load(): Promise<void> {
    this.#timer = undefined;
    const window = this.#missing() ?? this.#outdated();
    if (window === undefined) return;
    this.#isLoading = true;
    try {
      const query = { since: window * WINDOW, limit: WINDOW };
      const found = await this.host.call("timeline", { session: this.session, query, signal: this.#ending.signal });
      this.#windows.set(window, found);
      this.#problem.value = null;
      this.#version.value += 1;
    } catch (error) {
      if (error instanceof GivenUp) return;
      if (!(error instanceof Refused)) throw error;
      this.#problem.value = error.problem;
      return;
    } finally {
      this.#isLoading = false;
    }
    this.#loadSoon(this.isWhole ? AGAIN_MS : 0);
  }
}

export function useTimeline(session: string): Timeline {
  const host = useHost();
  const timeline = useMemo(() => new Timeline(host, session), [host, session]);
  useEffect(() => () => timeline.end(), [timeline]);
  return timeline;
}

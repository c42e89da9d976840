/** The records of a session: a page at a time, those that are in sight, however many there are. */
import { signal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { Problem, View } from "../host/interface";
import { GivenUp, Refused, type HostSocket } from "../host/socket";

export type RecordView = View<"RecordView">;

const PAGE = 100;
const MOST_KEPT = 4_000;
const SETTLED_MS = 60;
/** A session that does not run in this host may be written by another process, which does not tell of it. */
const AGAIN_MS = 5_000;

export class Records {
  readonly #head = signal<number | null>(null);
  /** Number of the last record; null: it is not known yet. */
  readonly head: ReadonlySignal<number | null> = this.#head;
  readonly #version = signal(0);
  /** It changes when records have come. */
  readonly version: ReadonlySignal<number> = this.#version;
  readonly #problem = signal<Problem | null>(null);
  readonly problem: ReadonlySignal<Problem | null> = this.#problem;
  readonly #kept = new Map<number, RecordView>();
  /** Numbers of the records in sight that have not come, with how often each is shown. */
  readonly #wanted = new Map<number, number>();
  readonly #ending = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isLoading = false;
  /** Number of the last record, as the row of the session says; null: it does not run in this host. */
  #told: number | null = null;

  constructor(
    private readonly host: HostSocket,
    readonly session: string,
  ) {
    void this.#load(0, 1); // tells how many there are; those in sight are asked for then
    // A subscription to its events would start a session that is only stored
    const endRows = host.listenToRows({ session }, {
      data: ({ changed, first }) => {
        if (first) this.#told = null;
        for (const row of Object.values(changed)) this.#told = row?.records ?? null;
        this.#lookForMore();
      },
      end: () => (this.#told = null), // whoever may not observe the tree is told nothing
    });
    const again = setInterval(() => this.#told === null && !document.hidden && this.#lookAgain(), AGAIN_MS);
    this.#ending.signal.addEventListener("abort", () => {
      clearInterval(again);
      endRows();
    });
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#ending.abort();
  }

  get(number: number): RecordView | undefined {
    return this.#kept.get(number);
  }

  /** Says that a record is in sight; returns what says that it is not any more. */
  want(number: number): () => void {
    this.#wanted.set(number, (this.#wanted.get(number) ?? 0) + 1);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#loadWanted(), SETTLED_MS); // who scrolls fast wants none of those between
    return () => {
      const rest = (this.#wanted.get(number) ?? 1) - 1;
      if (rest) this.#wanted.set(number, rest);
      else this.#wanted.delete(number);
    };
  }

  #lookForMore(): void {
    if (this.#told !== null && this.#told > (this.#head.value ?? Infinity)) this.#lookAgain();
  }

  #lookAgain(): void {
    const head = this.#head.value;
    if (head !== null && !this.#isLoading) void this.#load(head, PAGE);
  }

  async #loadWanted(): Promise<void> {
    if (this.#isLoading) return; // the end of that looks again
    const missing = [...this.#wanted.keys()].filter((number) => !this.#kept.has(number));
    if (missing.length === 0) return;
    const first = Math.min(...missing);
    await this.#load(first - 1, Math.min(PAGE, Math.max(...missing) - first + 1));
  }

  async #load(since: number, limit: number): Promise<void> {
    this.#isLoading = true;
    let isNew = false;
    const told = this.#told;
    try {
      const query = { since, limit };
      const page = await this.host.call("records", { session: this.session, query, signal: this.#ending.signal });
      for (const record of page.records) this.#kept.set(record.number, record);
      this.#forget();
      isNew = page.records.length > 0 || this.#head.value !== page.head;
      this.#head.value = page.head;
      this.#problem.value = null;
      if (isNew) this.#version.value += 1;
    } catch (error) {
      if (error instanceof GivenUp) return;
      if (!(error instanceof Refused)) throw error;
      this.#problem.value = error.problem;
      return;
    } finally {
      this.#isLoading = false;
    }
    await this.#loadWanted();
    if (isNew || this.#told !== told) this.#lookForMore();
  }

  /** Forgets the records that came first, as long as too many are kept. */
  #forget(): void {
    for (const number of this.#kept.keys()) {
      if (this.#kept.size <= MOST_KEPT) return;
      if (!this.#wanted.has(number)) this.#kept.delete(number);
    }
  }
}

export function useRecords(session: string): Records {
  const host = useHost();
  const records = useMemo(() => new Records(host, session), [host, session]);
  useEffect(() => () => records.end(), [records]);
  return records;
}

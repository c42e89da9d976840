/** The one connection of the page to its host: calls and subscriptions, which survive that it is lost. */
import { signal, type ReadonlySignal } from "@preact/signals";
import { read, write } from "./exact_json";
import type { AnswerOf, BodyOf, CallName, Changes, Problem, QueryOf, View } from "./interface";

/** What the connection does at the moment. */
export type Link =
  | { readonly state: "connecting" }
  | { readonly state: "open" }
  | { readonly state: "lost"; readonly why: string; readonly again: number }
  | { readonly state: "refused"; readonly why: string };

/** The host has refused a call; its message is the sentence of the problem document. */
export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }

  /** Kind of the problem, such as `unknown-approval`. */
  get kind(): string {
    return this.problem.type.slice(this.problem.type.lastIndexOf(":") + 1);
  }
}

/** The wait for an answer was given up. */
export class GivenUp extends Error {}

/** What a subscription to the conversation of a session gives. */
export interface ConversationListener {
  /** What event number *seq* changes. */
  changes(told: Changes, seq: number): void;
  /** Events are missing here. */
  gap(): void;
  /** It ends: the session has ended, or there was a problem. */
  end(problem: Problem | null): void;
}

/** What a subscription to a view gives. */
export interface ViewListener<T> {
  data(view: T): void;
  end(problem: Problem | null): void;
}

/** What has changed in the rows of the tree that fit a query. */
export interface RowChanges {
  /** Rows that are new or have changed, by their session; null for one that is gone, or fits no more. */
  readonly changed: Readonly<Record<string, View<"RowView"> | null>>;
  /** How many rows fit the query, those beyond its limit among them. */
  readonly matching: number;
  /** How many sessions run. */
  readonly total: number;
  /** Whether these are the first rows: those that came before are to be forgotten. */
  readonly first?: boolean;
  /** Addresses of hosts of the same cluster that do not answer, so theirs is left out. */
  readonly missing?: readonly string[];
}

interface Message extends Partial<RowChanges> {
  readonly id?: string;
  readonly status?: number;
  readonly body?: unknown;
  readonly problem?: Problem;
  readonly cursor?: string;
  readonly data?: unknown;
  readonly gap?: { from: string; to: string };
  readonly end?: true;
}

/** A call or a subscription that has not ended. */
interface Use {
  /** The message that begins it; after a lost connection it is sent again. */
  frame(): object;
  take(message: Message): void;
}

const SUBPROTOCOL = "agentrail.v1";
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
const MOST_TRIES = 6;
const WRONG_KEY = "not-authenticated";
const KEY_CLOSE = "the key is not valid";
/** Close code of RFC 6455 for what breaks a rule of the server. */
const BROKEN_RULE = 1008;

/** Statuses after which the same call may go well: too many requests, and a host that cannot do it now. */
const PASSING: ReadonlySet<number> = new Set([429, 503]);

function isPassing(problem: Problem | undefined): problem is Problem {
  return problem !== undefined && PASSING.has(problem.status) && problem.retry_after !== undefined;
}

export class HostSocket {
  readonly #link = signal<Link>({ state: "connecting" });
  /** What the connection does. */
  readonly link: ReadonlySignal<Link> = this.#link;
  readonly #who = signal<View<"IdentityView"> | null>(null);
  /** Whose the key is; null: the host has not said, or the key may not ask for it. */
  readonly who: ReadonlySignal<View<"IdentityView"> | null> = this.#who;
  readonly #uses = new Map<string, Use>();
  #socket: WebSocket | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Uses that the host could not begin yet, with the timer of the next attempt. */
  readonly #waiting = new Map<string, ReturnType<typeof setTimeout>>();
  #lastId = 0;
  #failures = 0;
  #closed = false;

  constructor(
    readonly address: URL,
    readonly key: string,
  ) {
    this.#connect();
    addEventListener("online", this.#hurry);
  }

  /** Ends the connection for good. */
  close(): void {
    this.#closed = true;
    removeEventListener("online", this.#hurry);
    clearTimeout(this.#timer);
    this.#socket?.close(1000);
  }

  /** Connects now, if the connection is lost and the next attempt is still to come. */
  readonly #hurry = (): void => {
    if (this.#link.value.state === "lost") {
      clearTimeout(this.#timer);
      this.#connect();
    }
  };

  readonly hurry = this.#hurry;

  /**
   * Makes a call and returns its answer; throws `Refused` if the host refuses it.
   *
   * A command has an id: if the connection is lost before its answer, it is sent again and carried out once.
   */
  call<N extends CallName>(
    name: N,
    given: { session?: string; body?: BodyOf<N>; query?: QueryOf<N>; signal?: AbortSignal } = {},
  ): Promise<AnswerOf<N>> {
    const id = this.#newId();
    const command = given.body === undefined ? undefined : crypto.randomUUID();
    const { session, body, query, signal: ending } = given;
    return new Promise((resolve, reject) => {
      let tries = 0;
      const use: Use = {
        frame: () => ({ id, call: name, session, body, query, command }),
        take: (message) => {
          if (isPassing(message.problem) && (tries += 1) < MOST_TRIES) {
            this.#later(id, message.problem);
            return;
          }
          this.#uses.delete(id);
          if (message.problem) reject(new Refused(message.problem));
          else resolve(message.body as AnswerOf<N>);
        },
      };
      ending?.addEventListener("abort", () => {
        this.#finish(id);
        reject(new GivenUp());
      });
      this.#begin(id, use);
    });
  }

  /**
   * Listens to what the events of a session change in its conversation, from the first one on; returns what ends it.
   *
   * A lost connection loses none of them. With *last*, it ends after what is stored up to this record.
   */
  listenToConversation(session: string, listener: ConversationListener, last?: number): () => void {
    const id = this.#newId();
    let cursor = "0.0";
    this.#begin(id, {
      frame: () => ({ id, listen: "transcript", session, since: cursor, last }),
      take: (message) => {
        if (message.gap) {
          listener.gap();
        } else if (message.data !== undefined && message.cursor !== undefined) {
          if (!isAfter(message.cursor, cursor)) return;
          cursor = message.cursor;
          listener.changes(message.data as Changes, parseInt(cursor));
        } else if (message.end || message.problem) {
          this.#ended(id, message, listener);
        }
      },
    });
    return () => this.#finish(id);
  }

  /** Listens to a view; returns what ends it. */
  listenToView<T>(listen: string, fields: object, listener: ViewListener<T>): () => void {
    const id = this.#newId();
    this.#begin(id, {
      frame: () => ({ id, listen, ...fields }),
      take: (message) => {
        if (message.data !== undefined) listener.data(message.data as T);
        else if (message.end || message.problem) this.#ended(id, message, listener);
      },
    });
    return () => this.#finish(id);
  }

  /** Listens to the rows of the tree that fit *query*; returns what ends it. */
  listenToRows(query: QueryOf<"rows">, listener: ViewListener<RowChanges>): () => void {
    const id = this.#newId();
    this.#begin(id, {
      frame: () => ({ id, listen: "tree", changes: true, query }),
      take: (message) => {
        if (message.changed !== undefined) listener.data(message as RowChanges);
        else if (message.end || message.problem) this.#ended(id, message, listener);
      },
    });
    return () => this.#finish(id);
  }

  #ended(id: string, message: Message, listener: { end(problem: Problem | null): void }): void {
    if (isPassing(message.problem)) {
      this.#later(id, message.problem);
      return;
    }
    this.#uses.delete(id);
    listener.end(message.problem ?? null);
  }

  #newId(): string {
    this.#lastId += 1;
    return String(this.#lastId);
  }

  #begin(id: string, use: Use): void {
    this.#uses.set(id, use);
    if (this.#isUp()) this.#send(use.frame());
  }

  /** Ends a use at the wish of the page. */
  #finish(id: string): void {
    const hasBegun = this.#uses.delete(id) && !this.#waiting.has(id);
    if (hasBegun && this.#isUp()) this.#send({ id, end: true });
  }

  /** Begins a use again, after the time that the host has named. */
  #later(id: string, problem: Problem): void {
    const pause = Math.max(problem.retry_after ?? 1, 0.1) * 1000 * (1 + Math.random() / 2);
    const begin = () => {
      this.#waiting.delete(id);
      const use = this.#uses.get(id);
      if (use && this.#isUp()) this.#send(use.frame());
    };
    this.#waiting.set(id, setTimeout(begin, pause));
  }

  #isUp(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  #send(message: object): void {
    this.#socket?.send(write(message));
  }

  #connect(): void {
    if (this.#closed) return;
    const socket = new WebSocket(this.address, SUBPROTOCOL);
    this.#socket = socket;
    socket.onopen = () => {
      this.#send({ key: this.key });
      // The key has no answer of its own: that of this call says that it was taken, and whose it is
      const id = this.#newId();
      const take = ({ body }: Message) => {
        this.#uses.delete(id);
        if (body !== undefined) this.#who.value = body as View<"IdentityView">;
      };
      this.#uses.set(id, { frame: () => ({ id, call: "identity" }), take });
      for (const timer of this.#waiting.values()) clearTimeout(timer);
      this.#waiting.clear();
      for (const use of this.#uses.values()) this.#send(use.frame());
    };
    socket.onmessage = (event: MessageEvent<string>) => this.#take(read(event.data) as Message);
    socket.onclose = (event) => this.#lost(event);
  }

  #take(message: Message): void {
    if (message.id === undefined) {
      if (message.problem?.type.endsWith(WRONG_KEY)) this.#refuse(message.problem.found);
      return;
    }
    if (this.#link.value.state !== "open" && this.#link.value.state !== "refused") {
      this.#failures = 0;
      this.#link.value = { state: "open" };
    }
    this.#uses.get(message.id)?.take(message);
  }

  #refuse(why: string): void {
    this.#closed = true;
    this.#link.value = { state: "refused", why };
  }

  #lost(event: CloseEvent): void {
    if (event.code === BROKEN_RULE && event.reason === KEY_CLOSE && !this.#closed) this.#refuse(event.reason);
    if (this.#closed) return;
    this.#failures += 1;
    const longest = Math.min(FIRST_PAUSE_MS * 2 ** (this.#failures - 1), LONGEST_PAUSE_MS);
    const pause = longest * (0.5 + Math.random() / 2); // many pages of one host must not come back at once
    const why = event.reason || "the host does not answer";
    this.#link.value = { state: "lost", why, again: Date.now() + pause };
    this.#timer = setTimeout(() => this.#connect(), pause);
  }
}

/** Whether one cursor (`seq.n`) is after another. */
export function isAfter(cursor: string, other: string): boolean {
  const [seq = 0, n = 0] = cursor.split(".").map(Number);
  const [otherSeq = 0, otherN = 0] = other.split(".").map(Number);
  return seq === otherSeq ? n > otherN : seq > otherSeq;
}

/** The last calls of a session, and the one that waits for a person: what one can ask about. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { Problem } from "../host/interface";
import { Refused } from "../host/socket";
import { WINDOW, type Span } from "./timeline";

export interface Calls {
  /** Newest first. */
  readonly spans: readonly Span[];
  /** Ids of requests to the model, by the numbers of the records with which they ended. */
  readonly requests: ReadonlyMap<number, string>;
  /** Id of a call that waits for a person; null: none does. */
  readonly waiting: string | null;
  readonly problem: Problem | null;
}

/** Asks once for what *session* has called of late; null: the answer has not come. */
export function useCalls(session: string): Calls | null {
  const host = useHost();
  const calls = useSignal<Calls | null>(null);
  useEffect(() => {
    let isOver = false;
    const ask = async (): Promise<Calls> => {
      const { records, status } = await host.call("show_session", { session });
      const query = { since: Math.max(0, records - WINDOW), limit: WINDOW };
      const { spans } = await host.call("timeline", { session, query });
      const found = spans.filter(({ kind }) => kind === "call").reverse();
      const requests = new Map(spans.flatMap(({ kind, last, id }) => (kind === "request" && last !== null ? [[last, id] as const] : [])));
      return { spans: found, requests, waiting: status?.held[0]?.call_id ?? null, problem: null };
    };
    ask().then(
      (found) => isOver || (calls.value = found),
      (error: unknown) => {
        if (!(error instanceof Refused)) throw error;
        if (!isOver) calls.value = { spans: [], requests: new Map(), waiting: null, problem: error.problem };
      },
    );
    return () => {
      isOver = true;
    };
  }, [host, session]);
  return calls.value;
}

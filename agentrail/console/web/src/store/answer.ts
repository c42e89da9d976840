/** The answer of one call that only reads: asked again when what it is about changes; an older answer never wins. */
import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { AnswerOf, CallName, Problem, QueryOf } from "../host/interface";
import { GivenUp, Refused } from "../host/socket";

export interface Answer<T> {
  /** The last answer; null: none has come. */
  readonly value: T | null;
  readonly problem: Problem | null;
  /** Whether the answer is about something else, because the one that is wanted has not come. */
  readonly isLate: boolean;
}

const NONE = { value: null, problem: null, isLate: true } as const;
const SETTLED_MS = 80;

/** Asks for what *session* and *query* say; a null session is for calls that are not about one. */
export function useAnswer<N extends CallName>(
  name: N,
  session: string | null,
  query: QueryOf<N>,
): ReadonlySignal<Answer<AnswerOf<N>>> {
  const host = useHost();
  const answer = useSignal<Answer<AnswerOf<N>>>(NONE);
  const key = JSON.stringify([name, session, query]);
  useEffect(() => {
    const ending = new AbortController();
    answer.value = { ...answer.value, isLate: true };
    const ask = async () => {
      try {
        const value = await host.call(name, { ...(session !== null && { session }), query, signal: ending.signal });
        answer.value = { value, problem: null, isLate: false };
      } catch (error) {
        if (error instanceof GivenUp) return;
        if (!(error instanceof Refused)) throw error;
        answer.value = { value: null, problem: error.problem, isLate: false };
      }
    };
    const timer = setTimeout(() => void ask(), SETTLED_MS); // whoever holds an arrow key wants the last one alone
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [host, key]);
  return answer;
}

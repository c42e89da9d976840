/** A view of the host as it is now: what came last, and why it does not come any more. */
import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { Problem } from "../host/interface";

export interface Feed<T> {
  /** The view; null until it has come. */
  readonly view: ReadonlySignal<T | null>;
  /** Why it cannot be shown. */
  readonly problem: ReadonlySignal<Problem | null>;
}

export function useView<T>(listen: string): Feed<T> {
  const host = useHost();
  const view = useSignal<T | null>(null);
  const problem = useSignal<Problem | null>(null);
  useEffect(() => {
    const listener = {
      data: (found: T) => (view.value = found),
      end: (found: Problem | null) => (problem.value = found),
    };
    return host.listenToView<T>(listen, {}, listener);
  }, [host, listen]);
  return { view, problem };
}

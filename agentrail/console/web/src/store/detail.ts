/** What the host says of a session: asked again, soon after its events, because events do not tell all of it. */
import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { Problem, View } from "../host/interface";
import { Refused } from "../host/socket";

const SOON_MS = 300;

export interface Detail {
  readonly view: ReadonlySignal<View<"DetailView"> | null>;
  readonly problem: ReadonlySignal<Problem | null>;
  /** Asks again, at most every `SOON_MS`. */
  readonly refresh: () => void;
}

export function useDetail(session: string): Detail {
  const host = useHost();
  const view = useSignal<View<"DetailView"> | null>(null);
  const problem = useSignal<Problem | null>(null);
  const refresh = useMemo(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async () => {
      timer = undefined;
      try {
        view.value = await host.call("show_session", { session });
        problem.value = null;
      } catch (error) {
        if (error instanceof Refused) problem.value = error.problem;
      }
    };
    return () => {
      timer ??= setTimeout(() => void ask(), SOON_MS);
    };
  }, [host, session]);
  useEffect(refresh, [refresh]);
  return { view, problem, refresh };
}

/** A session as the navigation shows it: live while it runs, and otherwise as it is stored. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { Refused } from "../host/socket";
import { activity } from "./activity";
import { useRows } from "./rows";

export interface SessionFacts {
  /** Empty: it has none. */
  readonly title: string;
  readonly agent: string;
  /** What it does. */
  readonly doing: string;
  /** Null: the price of none of its responses is known, or it does not run here, where costs are counted. */
  readonly cost: number | null;
  /** Whether it runs in this host. */
  readonly isLive: boolean;
}

/** Returns what is known of *session*; null if nothing is. */
export function useSessionFacts(session: string): SessionFacts | null {
  const host = useHost();
  const stored = useSignal<View<"DetailView"> | null>(null);
  const row = useRows({ session }).rows.value?.rows.get(session);
  useEffect(() => {
    stored.value = null;
    host.call("show_session", { session }).then(
      (found) => (stored.value = found),
      (error: unknown) => {
        if (!(error instanceof Refused)) throw error; // the room says what stands in the way
      },
    );
  }, [host, session]);
  const view = stored.value;
  if (row) return { title: row.title || view?.title || "", agent: row.agent, doing: row.suspended ? "suspended" : activity(row), cost: row.cost_usd, isLive: true };
  if (!view) return null;
  const doing = view.ended ? "ended" : view.status ? activity(view.status) : "does not run now";
  return { title: view.title, agent: view.agent, doing, cost: view.status?.usage.cost_usd ?? null, isLive: view.status !== null };
}

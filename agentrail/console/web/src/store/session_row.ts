/** A session as the navigation shows it: live while it runs, and otherwise as it is stored. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { Refused } from "../host/socket";
import { activity, roleOf, type Role } from "./activity";
import { useRows } from "./rows";

export interface SessionFacts {
  /** Empty: it has none. */
  readonly title: string;
  readonly agent: string;
  /** What it does, and the colour of that. */
  readonly doing: string;
  readonly role: Role;
  /** Null: the price of none of its responses is known, or it does not run here, where costs are counted. */
  readonly cost: number | null;
  /** Since when its turn is open; null: none is. */
  readonly since: number | null;
  /** Whether it runs in this host. */
  readonly isLive: boolean;
  readonly isSuspended: boolean;
  readonly hasEnded: boolean;
}

/** Returns what is known of *session*; null if nothing is. */
export function useSessionFacts(session: string): SessionFacts | null {
  const host = useHost();
  const stored = useSignal<View<"DetailView"> | null>(null);
  const row = useRows({ session }).rows.value?.rows.values().next().value; // its id may be longer than what the address has
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
  if (row) {
    const { agent, cost_usd: cost, turn_since: since, suspended: isSuspended } = row;
    const title = row.title || view?.title || "";
    return { title, agent, doing: activity(row), role: roleOf(row), cost, since, isLive: true, isSuspended, hasEnded: false };
  }
  if (!view) return null;
  const { title, agent, ended: hasEnded, status } = view;
  const doing = hasEnded ? "ended" : status ? activity(status) : "not running";
  const role = !hasEnded && status ? roleOf(status) : "";
  return { title, agent, doing, role, cost: status?.usage.cost_usd ?? null, since: null, isLive: status !== null, isSuspended: false, hasEnded };
}

/** What waits for a person, over all sessions: one feed for the navigation, the title of the tab and the inbox. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { View } from "../host/interface";
import type { Feed } from "./feed";

export type Waiting = Feed<View<"ApprovalsView">>;

export const WaitingContext = createContext<Waiting | null>(null);

export function useWaiting(): Waiting {
  const waiting = useContext(WaitingContext);
  if (!waiting) throw new Error("a room is shown without the feed of what waits");
  return waiting;
}

/** Returns how many decisions wait, as text; empty if none does, or the key may not see them. */
export function waitingCount({ view }: Waiting): string {
  const { items = [], next = null } = view.value ?? {};
  return items.length ? `${items.length}${next === null ? "" : "+"}` : "";
}

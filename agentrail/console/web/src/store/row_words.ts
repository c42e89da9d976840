/** What the row of a session says: what it does, for how long, and in which colour. */
import { activity, roleOf, type Role } from "./activity";
import { callTitle } from "./call_words";
import { capitalised } from "./capitalised";
import type { Row } from "./rows";
import type { View } from "../host/interface";

type Held = View<"HeldView">;

/** The parts of the sessions that one can look at alone. */
export const PARTS = ["all", "held", "working", "trouble", "idle"] as const;
export type Part = (typeof PARTS)[number];

export function isWorking(row: Row): boolean {
  return !row.waits && !row.suspended && row.turn_since !== null;
}

/** Whether *row* is in *part*. */
export function isIn(row: Row, part: Part): boolean {
  switch (part) {
    case "all":
      return true;
    case "held":
      return row.waits || row.held > 0;
    case "working":
      return isWorking(row);
    case "trouble":
      return row.trouble !== null;
    case "idle":
      return !isWorking(row) && !row.waits;
  }
}

export interface Doing {
  readonly role: Role;
  readonly words: string;
  /** Since when; null: nothing is done. */
  readonly since: number | null;
}

/** Returns what *row* does; *held* is what waits for a person in it, as far as that is known. */
export function doingOf(row: Row, held: Held | undefined): Doing {
  const [call] = row.running;
  const more = [row.queued ? `${row.queued} queued` : "", row.steering ? `${row.steering} steering` : "", row.quarantined ? `${row.quarantined} set aside` : ""];
  const told = (role: Role, words: string, since: number | null): Doing => ({ role, words: [words, ...more.filter(Boolean)].join(" · "), since });
  if (row.waits && !row.suspended) return told("is-person", held ? callTitle(held) : "Needs you", held?.since || row.turn_since);
  if (isWorking(row) && call) return told("is-work", row.calls > 1 ? `${call.tool} and ${row.calls - 1} more` : call.tool, call.since);
  if (isWorking(row)) return told("is-work", capitalised(activity(row)), row.turn_since);
  if (row.state !== "running" && row.state !== "asleep") return told("is-bad", capitalised(row.state), null);
  if (row.trouble) return told("is-bad", capitalised(`${row.trouble.kind}: ${row.trouble.text}`), row.trouble.at_ms);
  return told(roleOf(row), capitalised(row.state === "asleep" ? "asleep" : activity(row)), row.turn_since);
}

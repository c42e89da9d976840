/** The table of rooms: one file each, loaded when it is first entered. */
import type { ComponentType } from "preact";
import type { IconName } from "./parts/icon";
import type { Place } from "./route";

/** What the component of a room gets. */
export interface RoomProps {
  readonly place: Place;
}

/** A room whose address names a session. */
export interface SessionRoomProps extends RoomProps {
  readonly session: string;
}

interface Common<Props> {
  readonly title: string;
  /** Words of the address that lead here; links have the first. The first room of each table has the empty word too. */
  readonly words: readonly [string, ...string[]];
  readonly load: () => Promise<{ readonly default: ComponentType<Props> }>;
}

export interface Room extends Common<RoomProps> {
  readonly icon: IconName;
}

export type SessionRoom = Common<SessionRoomProps>;

/** Rooms about all sessions. */
export const ROOMS: readonly [Room, ...Room[]] = [
  { title: "Now", icon: "now", words: ["now"], load: () => import("./rooms/now") },
  { title: "Inbox", icon: "inbox", words: ["inbox"], load: () => import("./rooms/inbox") },
  { title: "Figures", icon: "figures", words: ["figures"], load: () => import("./rooms/figures") },
  { title: "Evaluations", icon: "flask", words: ["evaluations"], load: () => import("./rooms/evaluations") },
  { title: "Knowledge", icon: "book", words: ["knowledge"], load: () => import("./rooms/knowledge") },
  { title: "What if", icon: "fork", words: ["what-if"], load: () => import("./rooms/what_if") },
];

/** Rooms about one session. */
export const SESSION_ROOMS: readonly [SessionRoom, ...SessionRoom[]] = [
  { title: "Conversation", words: ["conversation", "event"], load: () => import("./rooms/conversation") },
  { title: "Timeline", words: ["timeline", "record"], load: () => import("./rooms/timeline") },
  { title: "Why", words: ["why"], load: () => import("./rooms/why") },
  { title: "What the model saw", words: ["seen"], load: () => import("./rooms/seen") },
];

/** Returns the room that *word* names; the first one if none has it. */
export function findRoom<R extends { readonly words: readonly string[] }>(rooms: readonly [R, ...R[]], word: string): R {
  return rooms.find((room) => room.words.includes(word)) ?? rooms[0];
}

/** The address of what is shown: `#/ROOM`, `#/s/SESSION`, `#/s/SESSION/ROOM/…`. */
import { signal, type ReadonlySignal } from "@preact/signals";

/** An address, taken apart. */
export interface Place {
  /** Id of the session that it is about; null if it is about none. */
  readonly session: string | null;
  /** The word that names the room; empty: the first one. */
  readonly room: string;
  /** What follows, such as the number of a record. */
  readonly rest: readonly string[];
  /** What follows a `?`, such as a filter. */
  readonly query: URLSearchParams;
}

const SESSION = "s";

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // an address that somebody has typed
  }
}

export function parse(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  const isSession = parts[0] === SESSION && parts[1] !== undefined;
  const [session, words] = isSession ? [parts[1] ?? null, parts.slice(2)] : [null, parts];
  const [room = "", ...rest] = words;
  return { session, room, rest, query: new URLSearchParams(query) };
}

/** Returns the address of a room, such as `address("trip", "record", 12)`; without a session: `address(null, "inbox")`. */
export function address(session: string | null, ...parts: readonly (string | number)[]): string {
  const words = session === null ? parts : [SESSION, session, ...parts];
  return `#/${words.map((word) => encodeURIComponent(word)).join("/")}`;
}

const here = signal(parse(location.hash));
addEventListener("hashchange", () => {
  here.value = parse(location.hash);
});

/** What is shown. */
export const place: ReadonlySignal<Place> = here;

export function go(to: string): void {
  location.hash = to;
}

/** Puts *query* into the address, so that it can be sent to somebody; the history keeps one entry. */
export function replaceQuery(query: Readonly<Record<string, string>>): void {
  const kept = Object.entries(query).filter(([, value]) => value !== "");
  const [path = ""] = location.hash.split("?", 1);
  const text = new URLSearchParams(kept).toString();
  history.replaceState(null, "", text ? `${path}?${text}` : path || "#/");
}

/** Makes *to* the address without an entry in the history: the same room shows another thing. */
export function replaceAddress(to: string): void {
  history.replaceState(null, "", to);
  here.value = parse(to);
}

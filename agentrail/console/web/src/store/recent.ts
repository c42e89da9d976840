/** The sessions that were shown last in this tab, for the way back to them. */
import { signal, type ReadonlySignal } from "@preact/signals";

const NAME = "agentrail.recent";
const MOST = 5;

function stored(): string[] {
  try {
    const found = JSON.parse(sessionStorage.getItem(NAME) ?? "[]") as unknown;
    return Array.isArray(found) ? found.filter((name) => typeof name === "string") : [];
  } catch {
    return []; // somebody else has written it
  }
}

const kept = signal<readonly string[]>(stored());

/** Their ids, the one that was opened last being the first. */
export const recent: ReadonlySignal<readonly string[]> = kept;

export function remember(session: string): void {
  if (kept.value.includes(session)) return; // what one goes back to stays where it is
  kept.value = [session, ...kept.value].slice(0, MOST);
  sessionStorage.setItem(NAME, JSON.stringify(kept.value));
}

export function forgetRecent(): void {
  kept.value = [];
  sessionStorage.removeItem(NAME);
}

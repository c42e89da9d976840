/** The key of the person at this page. It is kept for this tab alone, and is gone when the tab is closed. */
import { signal, type ReadonlySignal } from "@preact/signals";
import { replaceAddress } from "../route";

const NAME = "agentrail.key";

const kept = signal(sessionStorage.getItem(NAME));

/** The key; null: there is none. */
export const key: ReadonlySignal<string | null> = kept;

export function keepKey(given: string): void {
  sessionStorage.setItem(NAME, given);
  kept.value = given;
}

export function forgetKey(): void {
  sessionStorage.removeItem(NAME);
  kept.value = null;
}

/** What an address has brought that the page did not simply take; its key is null if it cannot be read. */
export interface Offer {
  readonly key: string | null;
}

const offered = signal<Offer | null>(null);

/** What an address has brought, until somebody has decided about it; null: nothing. */
export const offer: ReadonlySignal<Offer | null> = offered;

export function forgetOffer(): void {
  offered.value = null;
}

/**
 * Takes the key out of an address that ends with `#token=…`, which `agentrail serve` prints.
 *
 * It is kept if the page has none. Another key than the page has is only offered: anybody can send such an address, and
 * what is written with the key of a stranger is in the stranger's sessions.
 */
export function takeKeyFromAddress(): void {
  const found = /^#token=(.*)$/.exec(location.hash);
  if (!found) return;
  replaceAddress("#/");
  const given = decoded(found[1] ?? "");
  if (given !== null && kept.value === null) keepKey(given);
  else if (given === null || given !== kept.value) offered.value = { key: given };
}

/** Returns what *text* says; null if it says nothing, or is cut within a character. */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text) || null;
  } catch {
    return null;
  }
}

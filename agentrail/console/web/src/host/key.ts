/** The key of the person at this page. It is kept for this tab alone, and is gone when the tab is closed. */

const NAME = "agentrail.key";

/** Takes the key out of an address that ends with `#token=…`, which `agentrail serve` prints; says whether there was one. */
export function takeKeyFromAddress(): boolean {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found?.[1]) return false;
  keepKey(decodeURIComponent(found[1]));
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  return true;
}

export function keptKey(): string | null {
  return sessionStorage.getItem(NAME);
}

export function keepKey(key: string): void {
  sessionStorage.setItem(NAME, key);
}

export function forgetKey(): void {
  sessionStorage.removeItem(NAME);
}

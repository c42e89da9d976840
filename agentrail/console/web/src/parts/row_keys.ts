/** Keys of a list: J and K go from row to row, `/` into its search; in a field they are letters. */
import type { RefObject } from "preact";

/** Listens until the returned function is called; *rows* is a selector of the links of the rows. */
export function moveFocus(rows: string, search?: RefObject<HTMLInputElement | null>): () => void {
  const heard = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches("input, textarea, select, [contenteditable]")) return;
    if (event.key === "/" && search?.current) {
      event.preventDefault();
      search.current.focus();
    }
    const step = { j: 1, k: -1 }[event.key.toLowerCase()];
    if (step === undefined) return;
    const links = [...document.querySelectorAll<HTMLElement>(rows)];
    const here = links.indexOf(document.activeElement as HTMLElement);
    links[Math.max(0, Math.min(links.length - 1, here + step))]?.focus();
  };
  addEventListener("keydown", heard);
  return () => removeEventListener("keydown", heard);
}

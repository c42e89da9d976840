/** Whether the page is as narrow as on a telephone: rows of tables are stacked there. */
import { signal, type ReadonlySignal } from "@preact/signals";

const narrow = matchMedia("(max-width: 48rem)");
const found = signal(narrow.matches);
narrow.addEventListener("change", () => (found.value = narrow.matches));

export const isPhone: ReadonlySignal<boolean> = found;

/** Keys of the whole page: letters act when no field has the focus, and no dialog or menu is open. */
import { useEffect, useRef } from "preact/hooks";

const WRITES = "input, textarea, select, [contenteditable]";
/** What lies above the page and takes its keys. */
export const COVERS = "dialog[open], [popover]:popover-open";

/** What a key does; keys are named as events name them, letters in small. */
export type PageKeys = Readonly<Record<string, (event: KeyboardEvent) => void>>;

export function usePageKeys(keys: PageKeys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const { target, key } = event;
      if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.repeat) return;
      if (!(target instanceof HTMLElement) || target.matches(WRITES) || document.querySelector(COVERS)) return;
      const act = latest.current[key.length === 1 ? key.toLowerCase() : key];
      if (!act) return;
      event.preventDefault();
      act(event);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

/** What went wrong in the last hour; asked again when a row tells of something new, and after a while. */
import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { Refused } from "../host/socket";
import type { Rows } from "./rows";

const SOON_MS = 500;
const AGAIN_MS = 60_000;

export type Trouble = View<"TroubleView">;

export function useTroubles(rows: ReadonlySignal<Rows | null>): ReadonlySignal<readonly Trouble[]> {
  const host = useHost();
  const found = useSignal<readonly Trouble[]>([]);
  const newest = Math.max(0, ...[...(rows.value?.rows.values() ?? [])].map((row) => row.trouble?.at_ms ?? 0));
  useEffect(() => {
    const ask = () =>
      host.call("trouble").then(
        ({ items }) => (found.value = items),
        (error: unknown) => {
          if (!(error instanceof Refused)) throw error; // whoever may not observe is told by the rows
        },
      );
    const soon = setTimeout(() => void ask(), SOON_MS);
    const again = setInterval(() => void ask(), AGAIN_MS);
    return () => {
      clearTimeout(soon);
      clearInterval(again);
    };
  }, [host, newest]);
  return found;
}

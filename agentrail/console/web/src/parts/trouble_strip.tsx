/** What went wrong in the last hour, the newest first. */
import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { Refused } from "../host/socket";
import { address } from "../route";
import type { Rows } from "../store/rows";
import { Moment } from "./moment";
import { Plain } from "./plain";

const SHOWN = 4;
const SOON_MS = 500;
const AGAIN_MS = 60_000;

export function TroubleStrip({ rows }: { rows: ReadonlySignal<Rows | null> }) {
  const host = useHost();
  const found = useSignal<View<"TroublesView"> | null>(null);
  const isWhole = useSignal(false);
  // Rows tell when something goes wrong; the list of all of it is asked for then, and once in a while
  const newest = Math.max(0, ...[...(rows.value?.rows.values() ?? [])].map((row) => row.trouble?.at_ms ?? 0));
  useEffect(() => {
    const ask = () =>
      host.call("trouble").then(
        (view) => (found.value = view),
        (error: unknown) => {
          if (!(error instanceof Refused)) throw error; // the rows have the same scope, and say what stands in the way
        },
      );
    const soon = setTimeout(() => void ask(), SOON_MS);
    const again = setInterval(() => void ask(), AGAIN_MS);
    return () => {
      clearTimeout(soon);
      clearInterval(again);
    };
  }, [host, newest]);
  const items = found.value?.items ?? [];
  if (items.length === 0) return <p class="hint">Nothing went wrong in the last hour.</p>;
  return (
    <section class="trouble" aria-label="What went wrong in the last hour">
      <h2>
        {items.length}
        {found.value?.more ? " or more" : ""} troubles in the last hour
      </h2>
      <ul>
        {items.slice(0, isWhole.value ? undefined : SHOWN).map((trouble) => (
          <li>
            <Moment at={trouble.at_ms} /> <strong>{trouble.kind}</strong>{" "}
            <a href={address(trouble.session, "event", trouble.cursor.split(".", 1)[0] ?? "")}>
              <Plain text={trouble.session} />
            </a>{" "}
            <Plain text={trouble.text} />
          </li>
        ))}
      </ul>
      {items.length > SHOWN && (
        <button type="button" class="small" aria-expanded={isWhole.value} onClick={() => (isWhole.value = !isWhole.value)}>
          {isWhole.value ? "Show the newest" : `Show all ${items.length}`}
        </button>
      )}
    </section>
  );
}

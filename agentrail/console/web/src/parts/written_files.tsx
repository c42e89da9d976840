/** The files that the agent of a session wrote, each to be saved: what a model wrote is never shown as a page. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { Refused } from "../host/socket";
import { act, ActionButton, SILENT, Told, type Telling } from "./action";
import { bytes } from "./amounts";
import { Icon } from "./icon";
import { Plain } from "./plain";

export interface WrittenFilesProps {
  readonly session: string;
  /** What changes when the agent may have written more. */
  readonly version: unknown;
}

type Written = View<"WrittenFilesView">;

export function WrittenFiles({ session, version }: WrittenFilesProps) {
  const host = useHost();
  const page = useSignal<Written | null>(null);
  const problem = useSignal("");
  const telling = useSignal<Telling>(SILENT);
  const list = async (before: Written | null) => {
    try {
      const found = await host.call("files", { session, query: before?.next ? { after: before.next } : {} });
      page.value = { ...found, items: [...(before?.items ?? []), ...found.items] };
      problem.value = "";
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      problem.value = error.problem.detail;
    }
  };
  useEffect(() => void list(null), [session, version]);
  if (problem.value) return <p class="hint">{problem.value}</p>;
  if (!page.value) return <p role="status">Loading …</p>;
  const { items, next, cut } = page.value;
  return (
    <div class="stack">
      {items.length === 0 && <p class="hint">It has written none, or none that you may have.</p>}
      <ul class="names" aria-label="Files that the agent wrote">
        {items.map(({ path, size }) => (
          <li key={path} class="line">
            <span class="grow">
              <Plain text={path} />
            </span>
            <span class="tiny soft">{bytes(size)}</span>
            <ActionButton kind="bare square slim" label={`Save ${path}`} act={async () => void (await act(telling, "Saved", () => save(host.key, session, path)))}>
              <Icon name="down" />
            </ActionButton>
          </li>
        ))}
      </ul>
      {next !== null && (
        <ActionButton kind="slim" act={() => list(page.value)}>
          Show more
        </ActionButton>
      )}
      {next === null && cut && <p class="hint">There may be more than the host lists.</p>}
      <Told telling={telling} />
    </div>
  );
}

/** Fetches a file with the key of the page, and has the browser save it. */
async function save(key: string, session: string, path: string): Promise<void> {
  const url = new URL(`v1/sessions/${encodeURIComponent(session)}/file`, document.baseURI);
  url.hash = "";
  url.searchParams.set("path", path);
  const response = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
  if (!response.ok) {
    const problem = (await response.json()) as { detail?: unknown };
    throw new Error(String(problem.detail ?? response.statusText));
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([await response.arrayBuffer()])); // of no type: no browser shows it
  link.download = path.split("/").at(-1) ?? path;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), SAVING_MS);
}

/** For so long the content is there after the click that saves it. */
const SAVING_MS = 60_000;

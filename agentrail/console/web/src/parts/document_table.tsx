/** The documents of a store: each can be opened and removed, and files can be added. */
import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { Problem, View } from "../host/interface";
import { Refused } from "../host/socket";
import { address, go } from "../route";
import { act, SILENT, Told, type Telling } from "./action";
import { count } from "./amounts";
import { Question } from "./dialog";
import { Empty } from "./empty";
import { Icon } from "./icon";
import { Menu } from "./menu";
import { Moment } from "./moment";
import { Plain } from "./plain";
import { ProblemNote } from "./problem_note";
import { Table, type Column } from "./table";

type Document = View<"DocumentView">;

const COLUMNS: readonly Column[] = [
  { title: "Document" },
  { title: "Characters", width: "14%", isNumber: true, isExtra: true },
  { title: "Passages", width: "12%", isNumber: true, isExtra: true },
  { title: "Added", width: "24%", isExtra: true },
  { title: "More", width: "3rem", isSilent: true },
];

/** So many rows before the last known one the next page is fetched. */
const AHEAD = 40;

interface DocumentTableProps {
  readonly store: string;
  /** How many documents the store has; null: that is not known. */
  readonly count: Signal<number | null>;
}

export function DocumentTable({ store, count: total }: DocumentTableProps) {
  const host = useHost();
  const rows = useSignal<readonly Document[] | null>(null);
  const next = useSignal<string | null>(null);
  const problem = useSignal<Problem | null>(null);
  const chosen = useSignal<string | null>(null);
  const removed = useSignal("");
  const isRemoving = useSignal(false);
  const telling = useSignal<Telling>(SILENT);
  const isLoading = useRef(false);
  const load = async (after: string | null) => {
    if (isLoading.current) return;
    isLoading.current = true;
    try {
      const page = await host.call("documents", { query: { store, ...(after !== null && { after }) } });
      rows.value = [...((after !== null && rows.value) || []), ...page.items];
      next.value = page.next;
      problem.value = null;
      total.value = page.count;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      problem.value = error.problem;
    } finally {
      isLoading.current = false;
    }
  };
  useEffect(() => void load(null), [host, store]);
  const open = ({ name }: Document) => go(address(null, "knowledge", store, name));
  const remove = () =>
    act(telling, "Removed", async () => {
      await host.call("delete_document", { query: { store, name: removed.value } });
      rows.value = rows.value?.filter(({ name }) => name !== removed.value) ?? null;
      if (total.value !== null) total.value -= 1;
    });
  const add = (files: readonly File[]) =>
    act(telling, files.length === 1 ? "Added" : `${files.length} added`, async () => {
      for (const file of files) await put(host.key, store, file);
    }).finally(() => void load(null));
  const cells = (row: Document) => [
    <a class="over-row" href={address(null, "knowledge", store, row.name)} tabIndex={-1}>
      <Plain text={row.name} isCut />
    </a>,
    count(row.chars),
    count(row.passages),
    <Moment at={row.added_ms} />,
    <Menu
      label={`More about ${row.name}`}
      kind="bare square slim"
      items={[{ label: "Remove…", isDanger: true, act: () => ((removed.value = row.name), (isRemoving.value = true)) }]}
    >
      <Icon name="more" />
    </Menu>,
  ];
  const documents = rows.value;
  return (
    <>
      <div class="line">
        <label class="button slim">
          <Icon name="clip" />
          Add files
          <input
            type="file"
            class="only-read"
            multiple
            onChange={({ currentTarget }) => {
              void add([...(currentTarget.files ?? [])]);
              currentTarget.value = "";
            }}
          />
        </label>
        <Told telling={telling} />
      </div>
      {problem.value && <ProblemNote problem={problem.value} />}
      {!documents && !problem.value && <p role="status">Loading …</p>}
      {documents?.length === 0 && (
        <Empty icon="book" title="The store is empty">
          Its documents would be here. Add files of Markdown or plain text.
        </Empty>
      )}
      {documents && documents.length > 0 && (
        <div class="documents">
          <Table
            rows={documents}
            label="Documents"
            columns={COLUMNS}
            idOf={({ name }) => name}
            cells={cells}
            chosen={chosen.value}
            choose={(name) => (chosen.value = name)}
            open={open}
            opensByClick
            phoneHeight={2.75}
            reach={(last) => next.value !== null && last > documents.length - AHEAD && void load(next.value)}
          />
        </div>
      )}
      <Question
        title="Remove the document"
        text={
          <>
            <Plain text={removed.value} /> cannot be found any more, and its text is erased. What sessions were given of it stays in their records.
          </>
        }
        yes="Remove it"
        isOpen={isRemoving}
        act={remove}
      />
    </>
  );
}

/** Puts a file into the store, under its own name. */
async function put(key: string, store: string, file: File): Promise<void> {
  const url = new URL(`v1/knowledge/${encodeURIComponent(store)}/documents/${encodeURIComponent(file.name)}`, document.baseURI);
  url.hash = "";
  const response = await fetch(url, { method: "PUT", headers: { authorization: `Bearer ${key}` }, body: file });
  if (response.ok) return;
  const problem = (await response.json()) as { detail?: unknown };
  throw new Error(String(problem.detail ?? response.statusText));
}

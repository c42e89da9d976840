/** What agents look up: the documents of a store, what is found for a question, what answers cite: `#/knowledge/STORE/DOCUMENT`. */
import "../style/knowledge.css";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { View } from "../host/interface";
import { Choice } from "../parts/choice";
import { CitedPassages } from "../parts/cited_passages";
import { DocumentTable } from "../parts/document_table";
import { Empty } from "../parts/empty";
import { FoundPassages } from "../parts/found_passages";
import { Menu } from "../parts/menu";
import { OneDocument } from "../parts/one_document";
import { ProblemNote } from "../parts/problem_note";
import { SearchField } from "../parts/search_field";
import type { RoomProps } from "../rooms";
import { address, go, replaceQuery, type Place } from "../route";
import { useAnswer } from "../store/answer";

export default function Knowledge({ place }: RoomProps) {
  const { value, problem, isLate } = useAnswer("stores", null, {} as never).value;
  const [named, document] = place.rest;
  if (named !== undefined && document !== undefined) {
    return <OneDocument key={`${named} ${document}`} store={named} name={document} place={place} />;
  }
  const store = named ?? value?.items[0]?.store;
  if (value && store !== undefined && value.is_on) return <Store key={store} store={store} stores={value.items} place={place} />;
  return (
    <div class="room">
      <h1>Knowledge</h1>
      {problem && <ProblemNote problem={problem} />}
      {value ? <Nothing isOn={value.is_on} /> : isLate && <p role="status">Loading …</p>}
    </div>
  );
}

/** Says what would be here, and the next step. */
function Nothing({ isOn }: { isOn: boolean }) {
  return isOn ? (
    <Empty icon="book" title="No document yet" next={<Code>{PUT}</Code>}>
      The documents of each store would be here. A store begins with its first document.
    </Empty>
  ) : (
    <Empty icon="book" title="The host keeps no knowledge" next={<Code>Host(…, knowledge=KNOWLEDGE)</Code>}>
      The documents that agents look up would be here.
    </Empty>
  );
}

const PUT = `curl -T start.md -H "Authorization: Bearer KEY" ${new URL("v1/knowledge/STORE/documents/start.md", document.baseURI.split("#")[0])}`;

function Code({ children }: { children: string }) {
  return (
    <pre>
      <code>{children}</code>
    </pre>
  );
}

type Shown = "documents" | "found" | "cited";

interface StoreProps {
  readonly store: string;
  readonly stores: readonly View<"StoreView">[];
  readonly place: Place;
}

function Store({ store, stores, place }: StoreProps) {
  const text = useSignal(place.query.get("query") ?? "");
  /** What is looked for; it may cost money, so nothing is looked for while somebody writes. */
  const query = useSignal(text.value);
  const session = useSignal(place.query.get("session") ?? "");
  const shown = useSignal<Shown>(session.value ? "cited" : query.value ? "found" : "documents");
  const count = useSignal<number | null>(null);
  useEffect(() => {
    const isCited = shown.value === "cited";
    replaceQuery({ query: shown.value === "found" ? query.value : "", session: isCited ? session.value : "" });
  }, [shown.value, query.value, session.value]);
  const search = (event: Event) => {
    event.preventDefault();
    query.value = text.value.trim();
    shown.value = query.value ? "found" : "documents";
  };
  return (
    <div class="room">
      <div class="room-head">
        <h1>Knowledge</h1>
        {stores.length > 1 && (
          <Menu
            label={store}
            kind="slim"
            items={stores.map((one) => ({ label: one.store, isChosen: one.store === store, act: () => go(address(null, "knowledge", one.store)) }))}
          />
        )}
        <form role="search" class="ask-store end" onSubmit={search}>
          <SearchField label="Words, or a question" placeholder="Words, or a question" value={text.value} change={(words) => (text.value = words)} />
        </form>
      </div>
      <Choice
        label="What is shown"
        value={shown.value}
        options={[
          ["documents", "Documents", count.value],
          ["found", "Found"],
          ["cited", "Cited"],
        ]}
        choose={(next) => (shown.value = next)}
      />
      {shown.value === "documents" && <DocumentTable store={store} count={count} />}
      {shown.value === "found" && <FoundPassages key={query.value} store={store} query={query.value} />}
      {shown.value === "cited" && <CitedPassages store={store} session={session} />}
    </div>
  );
}

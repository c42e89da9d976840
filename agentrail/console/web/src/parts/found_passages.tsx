/** The passages that are found for a question, as an agent would get them. */
import { useEffect } from "preact/hooks";
import type { View } from "../host/interface";
import { useAnswer } from "../store/answer";
import { count } from "./amounts";
import { Empty } from "./empty";
import { Folded } from "./folded";
import { PassageLink } from "./passage_link";
import { Plain } from "./plain";
import { ProblemNote } from "./problem_note";
import { moveFocus } from "./row_keys";

export function FoundPassages({ store, query }: { store: string; query: string }) {
  return query ? (
    <Found store={store} query={query} />
  ) : (
    <Empty icon="search" title="Nothing was asked yet">
      Write words or a question above: the passages that an agent would get for it are shown here.
    </Empty>
  );
}

function Found({ store, query }: { store: string; query: string }) {
  const { value, problem } = useAnswer("search", null, { store, query }).value;
  useEffect(() => moveFocus(".passages .passage-link"), []);
  if (problem) return <ProblemNote problem={problem} />;
  if (!value) return <p role="status">Searching …</p>;
  const passages = value.items;
  return (
    <>
      <p role="status" class="soft small">
        {passages.length === 0 ? "Nothing was found" : passages.length === 1 ? "1 passage" : `${passages.length} passages, the best first`}
      </p>
      <ol class="passages">
        {passages.map((passage) => (
          <li key={passage.citation} class="card">
            <Passage store={store} passage={passage} />
          </li>
        ))}
      </ol>
    </>
  );
}

function Passage({ store, passage }: { store: string; passage: View<"FoundView"> }) {
  const { heading, start, end, text, score } = passage;
  return (
    <>
      <header>
        <PassageLink store={store} passage={passage} />
        <span class="end soft tiny">
          characters {count(start)} to {count(end)} · score {score.toFixed(3)}
        </span>
      </header>
      <div class="passage-words">
        {heading && (
          <p class="soft small">
            <Plain text={heading} />
          </p>
        )}
        <Folded text={text} what="passage" />
      </div>
    </>
  );
}

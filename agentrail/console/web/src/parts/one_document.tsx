/** A document of a store, part by part, with one passage marked. It is shown as it is stored: what a document says is never markup. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { address, type Place } from "../route";
import { useAnswer } from "../store/answer";
import { count } from "./amounts";
import { Icon } from "./icon";
import { Moment } from "./moment";
import { Plain, withHiddenShown } from "./plain";
import { ProblemNote } from "./problem_note";

/** How many characters are shown at once, and how many of them above the passage. */
const PART = 8_000;
const ABOVE = 1_000;

interface OneDocumentProps {
  readonly store: string;
  readonly name: string;
  readonly place: Place;
}

export function OneDocument({ store, name, place: { query } }: OneDocumentProps) {
  const [first, last] = [numberOf(query.get("start")), numberOf(query.get("end"))];
  const start = useSignal(Math.max(0, first - ABOVE));
  const { value, problem } = useAnswer("document", null, { store, name, start: start.value, end: start.value + PART }).value;
  const { chars = 0, passages = 0, added_ms: added = 0 } = value?.document ?? {};
  const end = value ? value.start + Array.from(value.text).length : 0;
  return (
    <div class="room">
      <div class="room-head">
        <a class="button bare square slim" href={address(null, "knowledge", store)} aria-label="To the documents">
          <Icon name="left" />
        </a>
        <h1>
          <Plain text={name} />
        </h1>
        {value && (
          <span class="end soft small">
            {count(passages)} {passages === 1 ? "passage" : "passages"} · added <Moment at={added} />
          </span>
        )}
      </div>
      {problem && <ProblemNote problem={problem} />}
      {value && (
        <>
          <div class="line">
            <button type="button" class="slim" disabled={value.start === 0} onClick={() => (start.value = Math.max(0, value.start - PART))}>
              Earlier
            </button>
            <button type="button" class="slim" disabled={end >= chars} onClick={() => (start.value = end)}>
              Later
            </button>
            <span class="soft small" role="status">
              {chars === 0 ? "It is empty" : `Characters ${count(value.start)} to ${count(end)} of ${count(chars)}`}
            </span>
          </div>
          <Part text={value.text} from={first - value.start} to={last - value.start} />
        </>
      )}
    </div>
  );
}

/** Returns the number that *text* says; 0 if it says none. */
function numberOf(text: string | null): number {
  return /^\d{1,15}$/.test(text ?? "") ? Number(text) : 0;
}

/** Shows *text*, and marks its characters *from* … *to*, as the host counts them: one above U+FFFF is one. */
function Part({ text, from, to }: { text: string; from: number; to: number }) {
  const mark = useRef<HTMLElement>(null);
  const isSeen = useRef(false);
  const characters = Array.from(text);
  const [first, last] = [Math.max(0, from), Math.max(0, to)];
  const words = (begin: number, end?: number) => withHiddenShown(characters.slice(begin, end).join(""));
  useEffect(() => {
    if (!isSeen.current) mark.current?.scrollIntoView({ block: "center" });
    isSeen.current ||= mark.current !== null;
  });
  return (
    <div class="card folded">
      <pre class="words document-text" dir="auto" tabIndex={0} role="group" aria-label="Text of the document">
        {words(0, first)}
        {last > first && first < characters.length && <mark ref={mark}>{words(first, last)}</mark>}
        {words(Math.max(first, last))}
      </pre>
    </div>
  );
}

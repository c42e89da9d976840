/** Leads from a citation to the passage in its document. */
import { address } from "../route";
import { Plain } from "./plain";

interface Cited {
  readonly citation: string;
  readonly document: string;
  /** Where the passage begins and ends, in characters; null: the store does not have it. */
  readonly start: number | null;
  readonly end: number | null;
}

export function PassageLink({ store, passage: { citation, document, start, end } }: { store: string; passage: Cited }) {
  if (start === null || end === null) return <Plain text={citation} />;
  return (
    <a class="passage-link" href={`${address(null, "knowledge", store, document)}?start=${start}&end=${end}`}>
      <Plain text={citation} />
    </a>
  );
}

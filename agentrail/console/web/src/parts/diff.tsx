/** What a change takes away and adds: lines with their numbers, and the words that change within them. */
import { useSignal } from "@preact/signals";
import type { View } from "../host/interface";
import { withHiddenShown } from "./plain";

export type TextDifference = View<"TextDifference">;
type HunkRow = View<"HunkRow">;

/** The most rows that are shown at first, and how many more each time they are asked for. */
const FIRST = 16;
const MORE = 500;

const ROLES: Readonly<Record<HunkRow["mark"], string>> = { "-": "is-bad", "+": "is-good", " ": "" };

interface Line {
  /** What stands before the line: its numbers, and its mark. */
  readonly head: string;
  /** The line; null: some lines stay as they are, and the head says how many. */
  readonly row: HunkRow | null;
}

function linesOf({ hunks, lines, added, left_out: leftOut }: TextDifference, hasNumbers: boolean): Line[] {
  const width = String(lines + added).length;
  const number = (value: number | null) => String(value ?? "").padStart(width);
  const found: Line[] = [];
  const staying = (count: number) => {
    if (hasNumbers && count > 0) found.push({ head: count === 1 ? "… 1 line stays as it is" : `… ${count} lines stay as they are`, row: null });
  };
  let shownTo = 0;
  for (const hunk of hunks) {
    staying(hunk.old - 1 - shownTo);
    let old = hunk.old;
    let fresh = hunk.new;
    for (const row of hunk.rows) {
      const numbers = `${number(row.mark === "+" ? null : old)} ${number(row.mark === "-" ? null : fresh)} `;
      found.push({ head: `${hasNumbers ? numbers : ""}${row.mark} `, row });
      if (row.mark !== "+") old += 1;
      if (row.mark !== "-") fresh += 1;
    }
    shownTo = old - 1;
  }
  if (leftOut > 0) found.push({ head: `… ${leftOut} more lines of this change, too many to be kept`, row: null });
  else if (hunks.length > 0) staying(lines - shownTo);
  return found;
}

function textOf({ head, row }: Line): string {
  return row === null ? head : `${head}${row.parts.join("")}`;
}

function LineRow({ line: { head, row } }: { line: Line }) {
  if (row === null) return <span class="diff soft">{head}</span>;
  return (
    <span class={`diff ${ROLES[row.mark]}`}>
      {head}
      {row.parts.map((part, index) => (index % 2 && part ? <mark>{withHiddenShown(part)}</mark> : withHiddenShown(part)))}
      {row.lacks_end && " (no end of line)"}
    </span>
  );
}

/** A difference, its beginning first; *hasNumbers*: it is of a whole file. */
export function Difference({ difference, hasNumbers = true }: { difference: TextDifference; hasNumbers?: boolean }) {
  const more = useSignal(0);
  const lines = linesOf(difference, hasNumbers);
  const shown = lines.slice(0, FIRST + more.value * MORE);
  const rest = lines.length - shown.length;
  if (lines.length === 0) return <p class="soft small">Nothing changes.</p>;
  return (
    <div class="folded">
      <pre class="code" tabIndex={0} aria-label="change" role="group">
        {shown.map((line) => (
          <LineRow line={line} />
        ))}
      </pre>
      <p class="folded-actions">
        {rest > 0 && (
          <button type="button" data-more onClick={() => (more.value += 1)}>
            Show more of the change ({rest} rows)
          </button>
        )}
        {more.value > 0 && (
          <button type="button" onClick={() => (more.value = 0)}>
            Fold the change
          </button>
        )}
        {lines.length > FIRST && (
          <button type="button" onClick={() => void navigator.clipboard.writeText(lines.map(textOf).join("\n"))}>
            Copy the change
          </button>
        )}
      </p>
    </div>
  );
}

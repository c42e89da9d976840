/** A text of any length: its beginning, and more of it when it is asked for, so that none makes the page slow. */
import { useSignal } from "@preact/signals";
import { count } from "./amounts";
import { withHiddenShown } from "./plain";

const FIRST = 1_200;
const FIRST_LINES = 16;
const MORE = 40_000;

function beginning(text: string, most: number, lines: number): number {
  let end = 0;
  for (let line = 0; line < lines; line += 1) {
    const next = text.indexOf("\n", end);
    if (next < 0 || next >= most) return cut(text, most);
    end = next + 1;
  }
  return cut(text, Math.min(end, most));
}

/** Returns the nearest index that does not divide a character. */
function cut(text: string, most: number): number {
  if (most >= text.length) return text.length;
  const unit = text.charCodeAt(most);
  return unit >= 0xdc00 && unit <= 0xdfff ? most - 1 : most;
}

export interface FoldedProps {
  readonly text: string;
  /** What it is, for the buttons: “Show more of the result”. */
  readonly what: string;
  /** Whether it is code or JSON. */
  readonly isCode?: boolean;
}

export function Folded({ text, what, isCode = false }: FoldedProps) {
  const more = useSignal(0);
  const first = beginning(text, FIRST, FIRST_LINES);
  const end = more.value ? cut(text, first + more.value * MORE) : first;
  const rest = text.length - end;
  return (
    <div class="folded">
      <pre class={isCode ? "code" : "words"} dir="auto" tabIndex={0} aria-label={what} role="group">
        {withHiddenShown(text.slice(0, end))}
        {rest > 0 && "…"}
      </pre>
      {(rest > 0 || more.value > 0) && (
        <p class="folded-actions">
          {rest > 0 && (
            <button type="button" data-more onClick={() => (more.value += 1)}>
              Show more of the {what} ({count(rest)} characters)
            </button>
          )}
          {more.value > 0 && (
            <button type="button" onClick={() => (more.value = 0)}>
              Fold the {what}
            </button>
          )}
          <button type="button" onClick={() => void navigator.clipboard.writeText(text)}>
            Copy the {what}
          </button>
        </p>
      )}
    </div>
  );
}

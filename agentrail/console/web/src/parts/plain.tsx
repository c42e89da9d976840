/** Text that somebody wrote: never HTML, and what does not show or turns a line around is shown. */
import type { ComponentChildren } from "preact";

/** Characters that do not show, turn the text around, or move a terminal's cursor; line feeds, tabs and blanks do not. */
const HIDDEN = /(?![ \n\t])[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

function codePoint(mark: string): string {
  return `U+${(mark.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Returns *text* with each hidden character as its number in a frame. */
export function withHiddenShown(text: string): ComponentChildren {
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > from) parts.push(text.slice(from, match.index));
    parts.push(<span class="hidden-mark">{codePoint(match[0])}</span>);
    from = match.index + match[0].length;
  }
  if (from === 0) return text;
  parts.push(text.slice(from));
  return parts;
}

interface PlainProps {
  readonly text: string;
  /** Whether its end is cut off where there is no room: that of a right-to-left text is on the left. */
  readonly isCut?: boolean;
}

/** A short text in a line. */
export function Plain({ text, isCut = false }: PlainProps) {
  return <bdi class={isCut ? "plain cut" : "plain"}>{withHiddenShown(text)}</bdi>;
}

/** Returns *text* such that it turns nothing around it, where there are no elements, such as in the title of a tab. */
export function isolated(text: string): string {
  return `\u2068${text.replace(HIDDEN, "")}\u2069`;
}

/** Returns JSON text in which characters that do not show, or that turn a line around, are written as escapes. */
export function escaped(json: string): string {
  const escape = (mark: string) =>
    mark
      .split("")
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .join("");
  return json.replace(/(?![ \n])[\p{C}\p{Z}\p{DI}]/gu, escape);
}

/** A call in the words of people: what it does, as a headline, and why it waits. */
import { entriesOf, type Json } from "../host/exact_json";
import type { View } from "../host/interface";
import { inWords } from "./record_words";

const MOST_CHARS = 48;
/** The most values of arguments in a headline. */
const MOST_VALUES = 2;

/** How a headline of a tool that comes with agentrail begins, and the argument that it names. */
const KNOWN: Readonly<Record<string, readonly [verb: string, argument: string]>> = {
  shell: ["Run", "command"],
  read_file: ["Read", "path"],
  write_file: ["Write", "path"],
  edit_file: ["Edit", "path"],
  task: ["Give a task", "description"],
};

function short(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > MOST_CHARS ? `${line.slice(0, MOST_CHARS)} …` : line;
}

/** Returns the text or number that *json* is; empty: it is something else. */
function plainValue(json: string): string {
  if (json.startsWith('"')) return short(JSON.parse(json) as string);
  return /^-?\d/.test(json) ? json : "";
}

/** Returns the values of a call that a line has room for: those of its first arguments that are texts or numbers. */
export function valuesOf(args: Json | null): string[] {
  const values = args === null ? [] : entriesOf(args.json).map(([, value]) => plainValue(value));
  return values.filter(Boolean).slice(0, MOST_VALUES);
}

/** Returns what a call does: `Pay Nordwind GmbH 4200`, `Run git push`. */
export function headline(tool: string, args: Json | null): string {
  const [verb, argument] = KNOWN[tool] ?? [inWords(tool.replaceAll("_", " ")), null];
  const named = args !== null && argument !== null ? entriesOf(args.json).find(([name]) => name === argument) : undefined;
  const values = named ? [plainValue(named[1])] : valuesOf(args);
  return [verb, ...values].filter(Boolean).join(" ");
}

/** Whether the host can tell what a call would change: it writes a file, or replaces a text. */
export function proposesChange(tool: string, json: string): boolean {
  if (WRITERS.has(tool)) return true;
  const args = JSON.parse(json) as Record<string, unknown>;
  return typeof args["old_text"] === "string" && typeof args["new_text"] === "string";
}

/** The tools that come with agentrail and write files. */
const WRITERS: ReadonlySet<string> = new Set(["edit_file", "write_file"]);

/** Returns what a call of those has changed, by the details of its result; null: they do not tell. */
export function madeDifference(tool: string, details: Json | null): View<"TextDifference"> | null {
  if (details === null || !WRITERS.has(tool)) return null;
  const { difference } = JSON.parse(details.json) as { difference?: View<"TextDifference"> };
  return difference && isDifference(difference) ? difference : null;
}

/** Whether stored data, which may be anything, is a difference. */
function isDifference({ hunks, lines, added, left_out }: View<"TextDifference">): boolean {
  const numbers: unknown[] = [lines, added, left_out];
  return (
    numbers.every(Number.isInteger) &&
    Array.isArray(hunks) &&
    hunks.every(
      (hunk) =>
        Number.isInteger(hunk?.old) &&
        Number.isInteger(hunk.new) &&
        Array.isArray(hunk.rows) &&
        hunk.rows.every(
          (row) => ["-", "+", " "].includes(row?.mark) && Array.isArray(row.parts) && row.parts.every((part) => typeof part === "string"),
        ),
    )
  );
}

/** A held call, as much of it as its reason is read from. */
interface Asked {
  readonly tool: string;
  readonly args: Json;
  readonly hint: string;
}

/**
 * Returns what *hint* says beyond the call itself, whose tool and arguments stand beside it; empty: nothing.
 *
 * `HumanApproval` begins with them. Where that cannot be told from the rest, the whole hint is returned.
 */
export function reasonOf({ tool, args, hint }: Asked): string {
  const start = `\`${tool}\` wants to run with `;
  if (!hint.startsWith(start)) return hint;
  const rest = hint.slice(start.length);
  try {
    const size = sizeOfObject(rest);
    const isSame = JSON.stringify(JSON.parse(rest.slice(0, size))) === JSON.stringify(JSON.parse(args.json));
    return isSame ? rest.slice(size).replace(/^[;,.\s]+/, "") : hint;
  } catch {
    return hint; // it was cut, or says something else
  }
}

/** Returns how many characters the JSON object has that *text* begins with. */
function sizeOfObject(text: string): number {
  let depth = 0;
  let isText = false;
  for (let at = 0; at < text.length; at += 1) {
    const mark = text[at];
    if (isText && mark === "\\") at += 1;
    else if (mark === '"') isText = !isText;
    else if (!isText && mark === "{") depth += 1;
    else if (!isText && mark === "}" && (depth -= 1) === 0) return at + 1;
  }
  return text.length;
}

/** What waits for a person, as a headline: what a call does, or the question. */
export function callTitle({ kind, hint, tool, args }: Asked & { readonly kind: string }): string {
  return kind === "question" ? short(hint) : headline(tool, args);
}

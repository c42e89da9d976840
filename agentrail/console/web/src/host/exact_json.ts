/**
 * Reads and writes JSON without changing the values that people decide about.
 *
 * `JSON.parse` rounds long numbers and puts keys that are numbers first. What a person approves must be what runs, so
 * values of any shape (arguments of calls, data of tools and plugins) stay the text that came.
 */

/** A JSON value as its text. */
export interface Json {
  readonly json: string;
}

/** Fields of the interface that hold JSON of any shape. */
export type KeptField = "args" | "details" | "payload" | "data";

const KEPT: ReadonlySet<string> = new Set<KeptField>(["args", "details", "payload", "data"]);
const MAYBE_KEPT = /"(?:args|details|payload|data)":[[{\d\-tf]/;

/** What `read` makes of a type of the interface: fields with JSON of any shape have its text. */
export type Exact<T> = T extends readonly unknown[]
  ? { [K in keyof T]: Exact<T[K]> }
  : T extends object
    ? { [K in keyof T]: K extends KeptField ? Kept<T[K]> : Exact<T[K]> }
    : T;

type Kept<T> = T extends string | null | undefined ? T : unknown extends T ? Json | string | null : Json;

const QUOTE = 34;
const BACKSLASH = 92;
const COLON = 58;

/** Returns the index after the string that begins at *start*. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; ; at += 1) {
    at = text.indexOf('"', at);
    if (at < 0) throw new SyntaxError("a string has no end");
    let before = at - 1;
    while (text.charCodeAt(before) === BACKSLASH) before -= 1;
    if ((at - before) % 2 === 1) return at + 1;
  }
}

/** Returns the index after the value that begins at *start*. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; ) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      at = endOfString(text, at);
      continue;
    }
    const mark = text[at];
    if (mark === "{" || mark === "[") depth += 1;
    else if (mark === "}" || mark === "]") {
      if (depth === 0) return at; // the end of what a number or a word is in
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (mark === "," && depth === 0) return at;
    at += 1;
  }
  return text.length;
}

/** Parses a message of the host; values of fields in `KEPT`, below its first level, become `Json`. */
export function read(text: string): unknown {
  if (!MAYBE_KEPT.test(text)) return JSON.parse(text) as unknown;
  const pieces: string[] = [];
  let from = 0;
  let depth = 0;
  for (let at = 0; at < text.length; ) {
    const unit = text.charCodeAt(at);
    if (unit !== QUOTE) {
      if (unit === 123 || unit === 91) depth += 1;
      else if (unit === 125 || unit === 93) depth -= 1;
      at += 1;
      continue;
    }
    const end = endOfString(text, at);
    const start = end + 1;
    const isKept = depth > 1 && text.charCodeAt(end) === COLON && KEPT.has(text.slice(at + 1, end - 1));
    at = end;
    if (isKept && /[[{\d\-tf]/.test(text[start] ?? "")) {
      at = endOfValue(text, start);
      pieces.push(text.slice(from, start), '{"json":', JSON.stringify(text.slice(start, at)), "}");
      from = at;
    }
  }
  return JSON.parse(pieces.join("") + text.slice(from)) as unknown;
}

/** Returns the fields of the object *json*, in their order: each name, and the text of its value. */
export function entriesOf(json: string): [name: string, value: string][] {
  const entries: [string, string][] = [];
  for (let at = json.indexOf('"'); at >= 0; at = json.indexOf('"', at)) {
    const end = endOfString(json, at);
    const name = JSON.parse(json.slice(at, end)) as string;
    const start = json.indexOf(":", end) + 1;
    at = endOfValue(json, start);
    entries.push([name, json.slice(start, at).trim()]);
  }
  return entries;
}

function isJson(value: object): value is Json {
  return "json" in value && typeof value.json === "string" && Object.keys(value).length === 1;
}

/** Writes a message to the host; each `Json` in it as the text that it is. */
export function write(value: unknown): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  if (isJson(value)) return value.json;
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${write(field)}`).join(",")}}`;
}

/** Returns *json* with line breaks and indentation between its tokens; the tokens stay as they are. */
export function indented(json: string): string {
  const out: string[] = [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let at = 0; at < json.length; ) {
    const mark = json[at] ?? "";
    if (mark === '"') {
      const end = endOfString(json, at);
      out.push(json.slice(at, end));
      at = end;
      continue;
    }
    const closes = json[at + 1] === "}" || json[at + 1] === "]";
    if (mark === "{" || mark === "[") {
      depth += 1;
      out.push(mark, closes ? "" : line());
      if (closes) {
        depth -= 1;
        out.push(json[at + 1] ?? "");
        at += 1;
      }
    } else if (mark === "}" || mark === "]") {
      depth -= 1;
      out.push(line(), mark);
    } else if (mark === ",") out.push(mark, line());
    else if (mark === ":") out.push(": ");
    else out.push(mark);
    at += 1;
  }
  return out.join("");
}

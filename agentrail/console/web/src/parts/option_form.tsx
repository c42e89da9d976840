/** Options with their values, each as a field of its kind; only those that a person has changed are sent. */
import { useSignal } from "@preact/signals";
import type { Json } from "../host/exact_json";
import type { View } from "../host/interface";
import { ActionButton } from "./action";
import { Plain } from "./plain";

type Option = View<"OptionView">;

interface OptionFormProps {
  readonly plugin: string;
  readonly options: readonly Option[];
  /** Sends what has changed; returns whether the host has taken it. */
  readonly save: (changed: Readonly<Record<string, Json>>) => Promise<boolean>;
}

export function OptionForm({ plugin, options, save }: OptionFormProps) {
  /** What a person has written, by the names of the options. */
  const drafts = useSignal<Readonly<Record<string, string>>>({});
  const changed = options.filter((option) => (drafts.value[option.name] ?? fieldText(option)) !== fieldText(option));
  const wrong = changed.filter((option) => jsonText(option, drafts.value[option.name] ?? "") === null);
  const send = async () => {
    const values = changed.map((option) => [option.name, { json: jsonText(option, drafts.value[option.name] ?? "") ?? "" }]);
    if (await save(Object.fromEntries(values) as Record<string, Json>)) drafts.value = {};
  };
  return (
    <form class="options" aria-label={`Options of ${plugin}`} onSubmit={(event) => event.preventDefault()}>
      {options.map((option) => (
        <OptionField
          key={option.name}
          option={option}
          text={drafts.value[option.name] ?? fieldText(option)}
          isWrong={wrong.includes(option)}
          write={(text) => (drafts.value = { ...drafts.value, [option.name]: text })}
        />
      ))}
      <p role="status" class="hint">
        {wrong.length > 0 && `Not a value that it can have: ${wrong.map(({ name }) => name).join(", ")}`}
      </p>
      <ActionButton disabled={changed.length === 0 || wrong.length > 0} act={send}>
        Change the options
      </ActionButton>
    </form>
  );
}

interface OptionFieldProps {
  readonly option: Option;
  readonly text: string;
  readonly isWrong: boolean;
  readonly write: (text: string) => void;
}

function OptionField({ option, text, isWrong, write }: OptionFieldProps) {
  const kind = kindOf(option);
  return (
    <label>
      <Plain text={option.name} />{" "}
      {kind === "switch" ? (
        <input type="checkbox" checked={text === "true"} onChange={(event) => write(String(event.currentTarget.checked))} />
      ) : (
        <input
          class={kind === "json" ? "code" : undefined}
          inputMode={kind === "number" ? "decimal" : undefined}
          spellcheck={false}
          aria-invalid={isWrong}
          value={text}
          onInput={(event) => write(event.currentTarget.value)}
        />
      )}
    </label>
  );
}

type Kind = "text" | "switch" | "number" | "json";

/** How the value of an option is written: what it is now says so. */
function kindOf({ data }: Option): Kind {
  if (typeof data === "string") return "text";
  if (data === null) return "json";
  if (data.json === "true" || data.json === "false") return "switch";
  return /^-?\d/.test(data.json) ? "number" : "json";
}

function fieldText({ data }: Option): string {
  if (data === null) return "null";
  return typeof data === "string" ? data : data.json;
}

/** Returns the JSON of what stands in the field of *option*; null if it is none. */
function jsonText(option: Option, text: string): string | null {
  if (kindOf(option) === "text") return JSON.stringify(text);
  try {
    JSON.parse(text);
    return text;
  } catch {
    return null;
  }
}

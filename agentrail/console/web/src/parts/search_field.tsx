/** A field to search in; `/` leads there. */
import { useRef } from "preact/hooks";
import { Icon } from "./icon";
import { usePageKeys } from "./page_keys";

interface SearchFieldProps {
  readonly label: string;
  readonly placeholder: string;
  readonly value: string;
  readonly change: (text: string) => void;
  readonly maxLength?: number;
}

export function SearchField({ label, placeholder, value, change, maxLength }: SearchFieldProps) {
  const field = useRef<HTMLInputElement>(null);
  usePageKeys({ "/": () => field.current?.focus() });
  return (
    <label class="field">
      <Icon name="search" />
      <input
        ref={field}
        type="search"
        dir="auto"
        aria-label={label}
        placeholder={placeholder}
        value={value}
        maxLength={maxLength}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <kbd aria-hidden="true">/</kbd>
    </label>
  );
}

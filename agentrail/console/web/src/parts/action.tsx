/** What a person does: it is told while it is done, when it went well, and when the host refuses it. */
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { GivenUp } from "../host/socket";
import { withHiddenShown } from "./plain";

/** What is told about the last action, to be shown by `Told`. */
export interface Telling {
  readonly text: string;
  readonly isBad: boolean;
}

export const SILENT: Telling = { text: "", isBad: false };

/** Does something, and tells of it in *telling*; returns whether it went well. */
export async function act(telling: Signal<Telling>, done: string, action: () => Promise<unknown>): Promise<boolean> {
  telling.value = { text: "…", isBad: false };
  try {
    await action();
  } catch (error) {
    if (error instanceof GivenUp) return false;
    const text = error instanceof Error ? error.message : String(error);
    telling.value = { text, isBad: true };
    return false;
  }
  telling.value = { text: done, isBad: false };
  return true;
}

/** Shows what was told, also to those who cannot see it. */
export function Told({ telling }: { telling: Signal<Telling> }) {
  const { text, isBad } = telling.value;
  return (
    <div class={isBad ? "told bad" : "told"}>
      <p role="status">{isBad ? "" : withHiddenShown(text)}</p>
      {isBad && <p role="alert">{withHiddenShown(text)}</p>}
    </div>
  );
}

/** A button that cannot be pressed twice at once, nor by a key that was held since before. */
export function ActionButton(props: {
  readonly act: () => Promise<unknown>;
  readonly children: ComponentChildren;
  readonly kind?: string;
  readonly disabled?: boolean;
  readonly shortcut?: string;
  /** What it is called, if nothing in it says so. */
  readonly label?: string;
  /** Whether it asks once more about something: Enter alone presses it, and any other key leaves it. */
  readonly asksAgain?: boolean;
}) {
  const isBusy = useSignal(false);
  const press = () => {
    isBusy.value = true;
    void props.act().finally(() => (isBusy.value = false));
  };
  return (
    <button
      type="button"
      class={props.kind}
      disabled={props.disabled || isBusy.value}
      aria-label={props.label}
      aria-keyshortcuts={props.shortcut}
      data-asks={props.asksAgain || undefined}
      onKeyDown={(event) => event.repeat && event.key === "Enter" && event.preventDefault()}
      onClick={press}
    >
      {props.children}
    </button>
  );
}

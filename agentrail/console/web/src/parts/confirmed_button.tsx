/** A button for what cannot be undone: it asks first. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ActionButton } from "./action";

export function ConfirmedButton(props: { label: string; question: string; act: () => Promise<unknown> }) {
  const { label, question, act } = props;
  const isAsked = useSignal(false);
  const box = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (isAsked.value) box.current?.querySelector("button")?.focus();
  }, [isAsked.value]);
  if (!isAsked.value) {
    return (
      <button type="button" class="danger" onClick={() => (isAsked.value = true)}>
        {label}
      </button>
    );
  }
  return (
    <span class="confirm" ref={box} role="group" aria-label={label}>
      {question}{" "}
      <button type="button" onClick={() => (isAsked.value = false)}>
        No
      </button>{" "}
      <ActionButton kind="danger" act={() => act().finally(() => (isAsked.value = false))}>
        Yes: {label.toLowerCase()}
      </ActionButton>
    </span>
  );
}

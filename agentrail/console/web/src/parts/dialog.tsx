/** A dialog above the page: Escape and its cross close it, and the focus goes back to where it was. */
import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { ActionButton } from "./action";
import { Icon } from "./icon";

interface DialogProps {
  readonly title: string;
  readonly isOpen: Signal<boolean>;
  readonly children: ComponentChildren;
}

export function Dialog(props: DialogProps) {
  return props.isOpen.value ? <OpenDialog {...props} /> : null;
}

function OpenDialog({ title, isOpen, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const name = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby={name} onClose={() => (isOpen.value = false)}>
      <div class="dialog-head">
        <h2 id={name}>{title}</h2>
        <button type="button" class="bare square slim" aria-label="Close" onClick={() => dialog.current?.close()}>
          <Icon name="cross" />
        </button>
      </div>
      {children}
    </dialog>
  );
}

/** Asks before something that cannot be undone; the focus is at “No”. */
export function Question(props: {
  readonly title: string;
  readonly text: ComponentChildren;
  readonly isOpen: Signal<boolean>;
  readonly yes: string;
  readonly act: () => Promise<unknown>;
}) {
  const { title, text, isOpen, yes, act } = props;
  return (
    <Dialog title={title} isOpen={isOpen}>
      <p>{text}</p>
      <div class="actions">
        <button type="button" autofocus onClick={() => (isOpen.value = false)}>
          No
        </button>
        <ActionButton kind="danger" act={() => act().finally(() => (isOpen.value = false))}>
          {yes}
        </ActionButton>
      </div>
    </Dialog>
  );
}

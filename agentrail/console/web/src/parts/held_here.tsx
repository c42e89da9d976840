/** What waits for a person in the session that is shown, decided in its conversation. */
import { useSignal, type Signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Telling } from "./action";
import { useDecisionKeys } from "./decision_keys";
import { HeldCall, nameOf, type Held } from "./held_call";

/** For so long after a room is opened, what appears in it was there before. */
const OPENING_MS = 1_000;

interface HeldHereProps {
  readonly items: readonly Held[];
  readonly telling: Signal<Telling>;
  /** Called after a decision that the host has taken. */
  readonly decided: () => void;
}

export function HeldHere({ items, telling, decided }: HeldHereProps) {
  const box = useRef<HTMLDivElement>(null);
  /** Names of what was decided here, which the host may still list for a moment. */
  const gone = useSignal<ReadonlySet<string>>(new Set());
  const mustFocus = useRef(false);
  const openedAt = useRef(performance.now());
  /** What is there when the room is opened is no surprise to a hand that is about to click. */
  const isOpening = performance.now() - openedAt.current < OPENING_MS;
  useDecisionKeys(box);
  const waiting = items.filter((held) => !gone.value.has(nameOf(held)));
  useLayoutEffect(() => {
    if (!mustFocus.current) return;
    mustFocus.current = false;
    if (document.activeElement === document.body) (box.current?.querySelector<HTMLElement>(".held") ?? document.getElementById("main"))?.focus();
  });
  return (
    <div class="held-here" ref={box}>
      {waiting.map((held, index) => (
        <HeldCall
          key={nameOf(held)}
          held={held}
          isChosen={index === 0}
          isAsked={isOpening}
          telling={telling}
          decided={() => {
            gone.value = new Set([...gone.value, nameOf(held)]);
            mustFocus.current = true;
            decided();
          }}
        />
      ))}
    </div>
  );
}

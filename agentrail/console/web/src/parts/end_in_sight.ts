/** What of a conversation stays where it is while the conversation grows: what waits for a person, or else its end. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { HeldStill } from "./held_still";

/** For how long after a wheel, a finger or a key what scrolls is taken for a person's doing. */
const HAND_MS = 1000;
const NEAR_END = 40;

/** Whether something of an element is neither out of sight nor below what sticks. */
function isInSight(element: Element): boolean {
  const { top, bottom } = element.getBoundingClientRect();
  const { scrollPaddingTop, scrollPaddingBottom } = getComputedStyle(document.documentElement);
  return bottom > Number.parseFloat(scrollPaddingTop) && top < innerHeight - Number.parseFloat(scrollPaddingBottom);
}

/**
 * Keeps the end of the page in sight while it grows, until a person scrolls away; returns what leaves the end. A call that
 * waits for a person is not moved at all, unless it would push away what has the focus of the keyboard.
 *
 * Items get their heights when they come into sight, and the browser moves what is shown along: only a person leaves the end.
 */
export function useEndInSight(list: { readonly current: HTMLElement | null }, isWanted: boolean): () => void {
  const isAtEnd = useRef(true);
  const wanted = useRef(isWanted);
  wanted.current = isWanted;
  useLayoutEffect(() => {
    const page = document.documentElement;
    const held = new HeldStill();
    let touchedAt = -HAND_MS;
    const touch = () => (touchedAt = performance.now());
    const follow = () => {
      if (held.keep()) return;
      if (isAtEnd.current && wanted.current) page.scrollTop = page.scrollHeight;
      held.look();
    };
    const stay = () => {
      const focus = list.current?.querySelector(":focus-visible");
      const isRead = focus && isInSight(focus);
      follow();
      if (!isRead || isInSight(focus)) return;
      focus.scrollIntoView({ block: "nearest" });
      held.look();
      isAtEnd.current = false;
    };
    const scrolled = () => {
      held.scrolled();
      if (page.scrollTop + page.clientHeight > page.scrollHeight - NEAR_END) isAtEnd.current = true;
      else if (performance.now() - touchedAt < HAND_MS) isAtEnd.current = false;
      else if (!held.isKept) stay();
    };
    const opened = () => held.mayMove();
    const watch = new ResizeObserver(stay); // pictures come later, and so do items out of sight
    watch.observe(document.body);
    // On a page with room to spare, the body does not grow with what is in it
    for (const part of list.current?.closest(".talk")?.children ?? []) watch.observe(part);
    const hands = ["wheel", "touchmove", "pointerdown", "keydown", "focusin"] as const;
    for (const name of hands) addEventListener(name, touch, { passive: true });
    addEventListener("scroll", scrolled, { passive: true });
    addEventListener("resize", opened);
    addEventListener("focusin", opened); // the browser brings what has the focus into sight
    list.current?.addEventListener("click", opened);
    return () => {
      watch.disconnect();
      for (const name of hands) removeEventListener(name, touch);
      removeEventListener("scroll", scrolled);
      removeEventListener("resize", opened);
      removeEventListener("focusin", opened);
      held.forget();
    };
  }, []);
  return () => {
    isAtEnd.current = false;
  };
}

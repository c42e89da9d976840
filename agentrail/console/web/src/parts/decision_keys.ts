/**
 * The keys that decide: none of them is a letter that somebody types in a sentence, is held, or comes before what it
 * decides about could be read.
 */

import { useEffect } from "preact/hooks";
import { COVERS } from "./page_keys";

/** Milliseconds without a key before and after one that decides; for as long nothing new can be approved either. */
export const PAUSE = 500;

/** The button of an approval: its letter only approves if nothing follows it. */
const APPROVES = "a";

/** The card that letters decide about. */
const CARD = ".held[data-chosen]";

/** What is shown of a text that is not shown whole: the button for more of it. */
const MORE = ".folded [data-more]";

/** What a person has to have seen of a call before one letter may approve it. */
const TEXTS = ".arguments tr, pre";

/** Keys that nobody presses in the middle of a sentence; Backspace, dead keys and those of input methods are of it. */
const MOVES: ReadonlySet<string> = new Set(["ArrowDown", "ArrowUp", "End", "Escape", "Home", "PageDown", "PageUp", "Tab"]);

const MODIFIERS: ReadonlySet<string> = new Set(["Alt", "AltGraph", "CapsLock", "Control", "Meta", "Shift"]);

export class DecisionKeys {
  /** When a key of a sentence was pressed last. */
  #typedAt = -PAUSE;
  /** When Enter or the space bar was pressed last: what comes at once after it is the second half of a double press. */
  #pressedAt = -PAUSE;
  /** The approval that is given if nothing follows its letter. */
  #waiting: ReturnType<typeof setTimeout> | undefined;
  /** The button to which a letter has led, and which only Enter presses. */
  #asked: HTMLElement | null = null;
  /** Whether the press of a button by the space bar was dropped, which some browsers carry out when it is released. */
  #hasDroppedSpace = false;

  /** Takes a key before anything else does; *box* has the card, and the list in which it is chosen if there is one. */
  press(event: KeyboardEvent, box: HTMLElement): void {
    const { target, key } = event;
    if (MODIFIERS.has(key)) return;
    if (event.altKey || event.ctrlKey || event.metaKey) {
      this.stop();
      return;
    }
    const asked = this.#asked;
    const isPress = key === "Enter" || key === " ";
    const isSecond = isPress && this.#isPressedAgain();
    const isInPause = this.#note(key);
    if (!(target instanceof HTMLElement) || document.querySelector(COVERS)) return;
    const isHome = isHomeOf(box, target);
    if (!isHome && !box.contains(target)) return;
    if (target === asked || target.matches("[data-asks]")) {
      if (key === "Enter" && !event.repeat) this.#endSentence();
      else this.#leaveAsked(event, box);
    } else if (target instanceof HTMLInputElement) {
      if (key === "Enter" && event.repeat) this.#drop(event);
      else if (key === "Enter") this.#endSentence();
    } else if (isPress && !(target instanceof HTMLTextAreaElement)) {
      if (event.repeat || isInPause || isSecond) this.#drop(event);
      else this.#endSentence();
    } else if (isHome && key.length === 1 && !event.repeat && !isInPause) {
      this.#pressLetter(event, box);
    }
  }

  /** Takes the release of a key. */
  release(event: KeyboardEvent): void {
    if (event.key === " " && this.#hasDroppedSpace) event.preventDefault();
    this.#hasDroppedSpace = false;
  }

  /** Takes back what waits for a pause. */
  stop(): void {
    clearTimeout(this.#waiting);
    this.#waiting = undefined;
    this.#asked = null;
  }

  /** Notes a key, which takes back what waits for a pause; returns whether it comes too soon after one of a sentence. */
  #note(key: string): boolean {
    const now = performance.now();
    const isInPause = now - this.#typedAt < PAUSE;
    if (MOVES.has(key)) this.#endSentence();
    else if (key !== "Enter") this.#typedAt = now;
    if (key !== "Enter" && key !== " ") this.#pressedAt = -PAUSE;
    this.stop();
    return isInPause;
  }

  /** Notes a press of Enter or the space bar; returns whether there was another one just before it. */
  #isPressedAgain(): boolean {
    const now = performance.now();
    const isAgain = now - this.#pressedAt < PAUSE;
    this.#pressedAt = now;
    return isAgain;
  }

  #endSentence(): void {
    this.#typedAt = -PAUSE;
  }

  /** Leaves the button that Enter would press; the space bar, or a letter, is a sentence that goes on. */
  #leaveAsked(event: KeyboardEvent, box: HTMLElement): void {
    if (event.key.length > 1 && event.key !== "Escape" && event.key !== "Enter") return;
    this.#drop(event);
    const leave = box.querySelector<HTMLElement>(`${CARD} [data-leave]`);
    if (leave) leave.click();
    (listOf(box) ?? box.querySelector<HTMLElement>(CARD))?.focus();
  }

  #drop(event: KeyboardEvent): void {
    event.preventDefault();
    event.stopPropagation();
    this.#hasDroppedSpace = event.key === " ";
  }

  #pressLetter(event: KeyboardEvent, box: HTMLElement): void {
    const card = box.querySelector<HTMLElement>(CARD);
    const control = card?.querySelector<HTMLElement>(`[aria-keyshortcuts="${CSS.escape(event.key)}"]`);
    if (!card || !control) return;
    event.preventDefault();
    if (!(control instanceof HTMLButtonElement)) control.focus();
    else if (event.key !== APPROVES) control.click();
    else if (performance.now() - Number(card.dataset["changed"]) < PAUSE) return; // nobody has read it
    else if (isShownWhole(card)) this.#wait(control);
    else this.#ask(control);
  }

  #ask(button: HTMLButtonElement): void {
    if (button.disabled) return;
    button.focus();
    this.#asked = button;
  }

  #wait(button: HTMLButtonElement): void {
    if (button.disabled) return;
    this.#waiting = setTimeout(() => {
      this.#waiting = undefined;
      if (button.isConnected) button.click();
    }, PAUSE);
  }
}

function listOf(box: HTMLElement): HTMLElement | null {
  return box.querySelector<HTMLElement>("[role=grid]");
}

/** Whether letters that *target* gets decide: the list or the chosen card has the focus, or nothing has. */
function isHomeOf(box: HTMLElement, target: HTMLElement): boolean {
  return target === listOf(box) || target === document.body || target.matches(`${CARD}, #main`);
}

/** Whether nothing of what is decided about is folded, out of sight, or below something else. */
function isShownWhole(card: HTMLElement): boolean {
  if (card.querySelector(MORE)) return false;
  return [...card.querySelectorAll(TEXTS)].filter((text) => !text.closest("details:not([open])")).every(isInSight);
}

function isInSight(text: Element): boolean {
  const { left, right, top, bottom } = text.getBoundingClientRect();
  const middle = (left + right) / 2;
  const isSeen = (y: number) => text.contains(document.elementFromPoint(middle, y));
  return isSeen(top + 1) && isSeen(bottom - 2) && text.scrollHeight <= text.clientHeight + 1;
}

/** Lets letters decide about the chosen card in *box*; it takes all keys of the page, because a sentence may begin anywhere. */
export function useDecisionKeys(box: { readonly current: HTMLElement | null }): void {
  useEffect(() => {
    const keys = new DecisionKeys();
    const press = (event: KeyboardEvent) => box.current && keys.press(event, box.current);
    const release = (event: KeyboardEvent) => keys.release(event);
    addEventListener("keydown", press, true);
    addEventListener("keyup", release, true);
    const leave = () => keys.stop(); // what follows may be typed in another window
    addEventListener("blur", leave);
    return () => {
      keys.stop();
      removeEventListener("keydown", press, true);
      removeEventListener("keyup", release, true);
      removeEventListener("blur", leave);
    };
  }, []);
}

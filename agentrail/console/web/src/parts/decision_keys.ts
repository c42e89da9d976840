/**
 * The keys that decide: none of them is a letter that somebody types in a sentence, is held, or comes before what it
 * decides about could be read.
 */

/** Milliseconds without a key before and after one that decides; for as long nothing new can be approved either. */
export const PAUSE = 500;

/** The button of an approval: its letter only approves if nothing follows it. */
const APPROVES = "a";

/** The button of a standing approval: its letter leads there, and Enter approves. */
const APPROVES_ALWAYS = "l";

/** What is shown of a text that is not shown whole: the button for more of it. */
const MORE = ".held .folded [data-more]";

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

  /** Takes a key before anything else does; *box* has the list, and the decision about what is chosen there. */
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
    if (!(target instanceof HTMLElement) || !box.contains(target)) return;
    if (target === asked) {
      if (key === "Enter" && !event.repeat) this.#endSentence();
      else this.#leaveAsked(event, box);
    } else if (target instanceof HTMLInputElement) {
      if (key === "Enter" && event.repeat) this.#drop(event);
      else if (key === "Enter") this.#endSentence();
    } else if (isPress && !(target instanceof HTMLTextAreaElement)) {
      if (event.repeat || isInPause || isSecond) this.#drop(event);
      else this.#endSentence();
    } else if (target === listOf(box) && key.length === 1 && !event.repeat && !isInPause) {
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
    listOf(box)?.focus();
  }

  #drop(event: KeyboardEvent): void {
    event.preventDefault();
    event.stopPropagation();
    this.#hasDroppedSpace = event.key === " ";
  }

  #pressLetter(event: KeyboardEvent, box: HTMLElement): void {
    const control = box.querySelector<HTMLElement>(`.held [aria-keyshortcuts="${CSS.escape(event.key)}"]`);
    if (control === null) return;
    event.preventDefault();
    if (!(control instanceof HTMLButtonElement)) control.focus();
    else if (event.key === APPROVES_ALWAYS || (event.key === APPROVES && !isShownWhole(box))) this.#ask(control);
    else if (event.key === APPROVES) this.#wait(control);
    else control.click();
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

/** Whether nothing of what is decided about is folded, or above or below what is in sight. */
function isShownWhole(box: HTMLElement): boolean {
  if (box.querySelector(MORE)) return false;
  return [...box.querySelectorAll(".held pre")].every((text) => {
    const { top, bottom } = text.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight && text.scrollHeight <= text.clientHeight + 1;
  });
}

/**
 * Keeps the card of what waits for a person where it is in the window, to the fraction of a pixel, while what stands above
 * it grows and shrinks: the page is scrolled along, and gets room where there is none to scroll.
 */

/** For how long after a click in the conversation what grows there is what the person has opened: the card makes room. */
const OPENING_MS = 300;

/** Differences that nobody can see, and that rounding makes. */
const NOTHING = 0.02;

export class HeldStill {
  /** The card that is kept, and where it is in the window, in pixels. */
  #card: HTMLElement | null = null;
  #top = 0;
  /** How far the page was scrolled then. */
  #scrolledTo = 0;
  #movesUntil = 0;

  get isKept(): boolean {
    return this.#current() !== null;
  }

  /** Moves the card back to where it was; returns whether there is one that is kept, or that may move now. */
  keep(): boolean {
    const card = this.#current();
    if (!card) return false;
    if (performance.now() < this.#movesUntil) {
      this.look();
      return true;
    }
    const talk = card.closest<HTMLElement>(".talk");
    const box = card.closest<HTMLElement>(".held-here");
    const page = document.documentElement;
    const moved = () => card.getBoundingClientRect().top - this.#top;
    const by = moved();
    if (!talk || !box || Math.abs(by) < NOTHING) return true;
    const lacking = page.scrollTop + by - (page.scrollHeight - page.clientHeight);
    if (lacking > 0) talk.style.minBlockSize = `${Math.ceil(talk.offsetHeight + lacking)}px`;
    page.scrollTop += by;
    const rest = moved(); // the page begins here, or scrolls by whole pixels
    if (Math.abs(rest) >= NOTHING) box.style.marginBlockStart = `${(Number.parseFloat(box.style.marginBlockStart) || 0) - rest}px`;
    this.#scrolledTo = page.scrollTop;
    return true;
  }

  /** Notes where the card is: there it is kept from now on. */
  look(): void {
    const card = document.querySelector<HTMLElement>(".held-here > .held");
    if (card !== this.#card) this.forget();
    this.#card = card;
    this.#top = card?.getBoundingClientRect().top ?? 0;
    this.#scrolledTo = document.documentElement.scrollTop;
  }

  /** Has the card go along with what a person, or the search of the browser, has scrolled. */
  scrolled(): void {
    const { scrollTop, scrollHeight, clientHeight } = document.documentElement;
    const isClamped = scrollTop < this.#scrolledTo && scrollTop >= scrollHeight - clientHeight - 1; // the page has become shorter
    if (!isClamped) this.#top -= scrollTop - this.#scrolledTo;
    this.#scrolledTo = scrollTop;
  }

  /** Lets the card move for a moment. */
  mayMove(): void {
    this.#movesUntil = performance.now() + OPENING_MS;
  }

  /** Takes back the room that the page got. */
  forget(): void {
    const box = this.#card?.closest<HTMLElement>(".held-here") ?? document.querySelector<HTMLElement>(".held-here");
    if (box) box.style.marginBlockStart = "";
    const talk = document.querySelector<HTMLElement>(".talk");
    if (talk) talk.style.minBlockSize = "";
  }

  /** The card that is kept, if it is still there and was in sight: nobody looks at another one. */
  #current(): HTMLElement | null {
    const card = this.#card;
    if (!card?.isConnected || card !== document.querySelector(".held-here > .held")) return null;
    return this.#top + card.offsetHeight > 0 && this.#top < innerHeight ? card : null;
  }
}

/** A button with a menu below it, for what has no room in the page; it works with the keyboard alone. */
import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";
import { Icon } from "./icon";
import { Plain } from "./plain";

export interface MenuItem {
  readonly label: string;
  readonly act: () => void;
  /** Whether it is the one of several that holds; without it, the item does something. */
  readonly isChosen?: boolean;
  readonly isDanger?: boolean;
}

export interface MenuProps {
  /** What the button is called. */
  readonly label: string;
  readonly items: readonly MenuItem[];
  readonly kind?: string;
  /** What stands in the button; without it, the label does, with an arrow. */
  readonly children?: ComponentChildren;
  /** What stands above the items. */
  readonly head?: ComponentChildren;
}

const ITEMS = "[role^=menuitem]";
const AWAY = 8;

export function Menu({ label, items, kind = "bare slim", children, head }: MenuProps) {
  const name = useId();
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const all = () => [...(menu.current?.querySelectorAll<HTMLElement>(ITEMS) ?? [])];
  const opened = (event: ToggleEvent) => {
    if (event.newState !== "open" || !button.current || !menu.current) return;
    place(button.current, menu.current);
    (menu.current.querySelector<HTMLElement>("[aria-checked=true]") ?? all()[0])?.focus();
  };
  const move = (event: KeyboardEvent) => {
    const list = all();
    const at = list.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: list.length - 1 }[event.key];
    if (event.key === "Tab") menu.current?.hidePopover();
    if (to === undefined) return;
    event.preventDefault();
    list[(to + list.length) % list.length]?.focus();
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        class={kind}
        aria-label={children ? label : undefined}
        aria-haspopup="menu"
        popovertarget={name}
        onKeyDown={(event) => event.key === "ArrowDown" && (event.preventDefault(), menu.current?.showPopover())}
      >
        {children ?? (
          <>
            <Plain text={label} />
            <Icon name="down" />
          </>
        )}
      </button>
      <div ref={menu} id={name} popover="auto" class="menu" onToggle={opened} onKeyDown={move}>
        {head && <div class="menu-head">{head}</div>}
        <div role="menu" aria-label={label}>
          {items.map((item) => (
            <button
              type="button"
              role={item.isChosen === undefined ? "menuitem" : "menuitemradio"}
              aria-checked={item.isChosen}
              tabIndex={-1}
              class={item.isDanger ? "bare danger" : "bare"}
              onClick={() => {
                menu.current?.hidePopover();
                item.act();
              }}
            >
              {item.isChosen !== undefined && <span class="menu-mark">{item.isChosen && <Icon name="check" />}</span>}
              <Plain text={item.label} />
            </button>
          ))}
        </div>
      </div>
    </>
  );
}

/** Puts the menu below its button, or above it where there is no room, within the window. */
function place(button: HTMLElement, menu: HTMLElement): void {
  const { left, right, top, bottom } = button.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const x = left + width > innerWidth - AWAY ? right - width : left;
  const y = bottom + height + AWAY > innerHeight && top - height > AWAY ? top - height - 4 : bottom + 4;
  menu.style.left = `${Math.max(AWAY, x)}px`;
  menu.style.top = `${Math.max(AWAY, y)}px`;
}

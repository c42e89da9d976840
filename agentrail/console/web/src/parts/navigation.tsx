/** The side of the page: the mark, the rooms of the host, light or dark, and the way out. */
import type { View } from "../host/interface";
import { ROOMS, findRoom } from "../rooms";
import { address, type Place } from "../route";
import { THEMES, chooseTheme, theme, type Theme } from "../theme";
import { Owner } from "./another_key";
import { Mark } from "./mark";

interface Props {
  readonly place: Place;
  /** Whose the key is; null: the host has not said. */
  readonly who: View<"IdentityView"> | null;
  /** How many decisions wait for a person; empty: none. */
  readonly waiting: string;
  readonly leave: () => void;
}

export function Navigation({ place, who, waiting, leave }: Props) {
  const current = place.session === null ? findRoom(ROOMS, place.room) : null;
  return (
    <header class="head">
      <Mark />
      <nav aria-label="Rooms" class="head-rooms">
        {ROOMS.map((room) => (
          <a href={address(null, room.words[0])} aria-current={room === current ? "page" : undefined}>
            {room.title}
            {room.words[0] === "inbox" && waiting && (
              <span class="badge">
                {waiting}
                <span class="only-read"> wait for a person</span>
              </span>
            )}
          </a>
        ))}
      </nav>
      <div class="head-end">
        {who && (
          <span class="head-who">
            <Owner who={who} />
          </span>
        )}
        <label>
          <span class="only-read">Colours</span>
          <select value={theme.value} onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}>
            {THEMES.map((name) => (
              <option value={name}>{name === "system" ? "system colours" : name}</option>
            ))}
          </select>
        </label>
        <button type="button" onClick={leave}>
          Sign out
        </button>
      </div>
    </header>
  );
}

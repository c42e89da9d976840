/** The head of the page: its rooms, light or dark, and the way out. */
import type { View } from "../host/interface";
import { ROOMS, SESSION_ROOMS, findRoom } from "../rooms";
import { address, type Place } from "../route";
import { THEMES, chooseTheme, theme, type Theme } from "../theme";
import { Owner } from "./another_key";
import { Plain } from "./plain";

interface Props {
  readonly place: Place;
  /** Whose the key is; null: the host has not said. */
  readonly who: View<"IdentityView"> | null;
  readonly leave: () => void;
}

export function Navigation({ place, who, leave }: Props) {
  const { session } = place;
  const current = session === null ? findRoom(ROOMS, place.room) : findRoom(SESSION_ROOMS, place.room);
  return (
    <header class="head">
      <nav aria-label="Rooms" class="head-rooms">
        {ROOMS.map((room) => (
          <a href={address(null, room.words[0])} aria-current={room === current ? "page" : undefined}>
            {room.title}
          </a>
        ))}
      </nav>
      {session !== null && (
        <nav aria-label="Rooms of the session" class="head-rooms">
          <span class="head-session">
            <Plain text={session} />
          </span>
          {SESSION_ROOMS.map((room, index) => (
            <a
              href={index ? address(session, room.words[0]) : address(session)}
              aria-current={room === current ? "page" : undefined}
            >
              {room.title}
            </a>
          ))}
        </nav>
      )}
      <div class="head-end">
        {who && (
          <span class="head-who">
            <Owner who={who} />
          </span>
        )}
        <label>
          Colours{" "}
          <select value={theme.value} onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}>
            {THEMES.map((name) => (
              <option value={name}>{name}</option>
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

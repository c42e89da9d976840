/** The head of a session: its title, what it does and has cost, and its rooms as tabs. */
import { findRoom, SESSION_ROOMS } from "../rooms";
import { address, type Place } from "../route";
import type { SessionFacts } from "../store/session_row";
import { dollars } from "./amounts";
import { Plain } from "./plain";

interface Props {
  readonly session: string;
  readonly place: Place;
  readonly facts: SessionFacts | null;
}

export function SessionHead({ session, place, facts }: Props) {
  const current = findRoom(SESSION_ROOMS, place.room);
  return (
    <div class="session-head">
      <h1>
        <Plain text={facts?.title || session} />
      </h1>
      <p class="session-facts">
        {facts?.title && (
          <span class="id">
            <Plain text={session} />
          </span>
        )}
        {facts && (
          <>
            <span>
              <Plain text={facts.agent} />
            </span>
            <span class="doing" data-doing={facts.doing}>
              {facts.doing}
            </span>
            {facts.isLive && <span>cost {dollars(facts.cost)}</span>}
          </>
        )}
      </p>
      <nav aria-label="Rooms of the session" class="tabs">
        {SESSION_ROOMS.map((room, index) => (
          <a
            href={index ? address(session, room.words[0]) : address(session)}
            aria-current={room === current ? "page" : undefined}
          >
            {room.title}
          </a>
        ))}
      </nav>
    </div>
  );
}

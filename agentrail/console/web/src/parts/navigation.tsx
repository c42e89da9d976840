/** The rail: the mark, the rooms of the host, the sessions that were shown last, whose the key is. On a telephone it is below. */
import { useSignal } from "@preact/signals";
import type { View } from "../host/interface";
import { ROOMS, findRoom } from "../rooms";
import { address, type Place } from "../route";
import { recent } from "../store/recent";
import { useSessionFacts } from "../store/session_row";
import { THEMES, chooseTheme, theme } from "../theme";
import { Dialog } from "./dialog";
import { Icon } from "./icon";
import { KeyTable } from "./key_table";
import { Menu } from "./menu";
import { usePageKeys } from "./page_keys";
import { Plain } from "./plain";

interface Props {
  readonly place: Place;
  /** Whose the key is; null: the host has not said. */
  readonly who: View<"IdentityView"> | null;
  /** How many decisions wait for a person; empty: none. */
  readonly waiting: string;
  readonly leave: () => void;
}

/** The tenant of a host that has one alone. */
const ONLY_TENANT = "local";

const THEME_WORDS = { system: "Colours of the system", light: "Light", dark: "Dark" } as const;

export function Navigation({ place, who, waiting, leave }: Props) {
  const current = place.session === null ? findRoom(ROOMS, place.room) : null;
  const hasKeys = useSignal(false);
  usePageKeys({ "?": () => (hasKeys.value = true) });
  return (
    <header class="rail" data-in-session={place.session !== null || undefined}>
      <a class="brand" href={address(null, "now")}>
        <svg viewBox="0 0 16 16" width="20" height="20" aria-hidden="true">
          <path d="M2 3h12M2 8h8M2 13h12" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" />
          <circle cx="13" cy="8" r="2" fill="currentColor" />
        </svg>
        agentrail
      </a>
      <nav aria-label="Rooms" class="rooms">
        {ROOMS.map((room) => (
          <a class="to" href={address(null, room.words[0])} aria-current={room === current ? "page" : undefined}>
            <Icon name={room.icon} />
            {room.title}
            {room.words[0] === "inbox" && waiting && (
              <span class="count">
                {waiting}
                <span class="only-read"> wait for you</span>
              </span>
            )}
          </a>
        ))}
      </nav>
      {recent.value.length > 0 && (
        <nav aria-label="Recent sessions" class="recent">
          <h2>Recent</h2>
          {recent.value.map((session) => (
            <RecentSession key={session} session={session} isHere={session === place.session} />
          ))}
        </nav>
      )}
      <div class="rail-end">
        {who && (
          <>
            <span class="face" aria-hidden="true">
              {initials(who.user)}
            </span>
            <span class="rail-who cut">
              <Plain text={who.user} />
              {who.tenant && who.tenant !== ONLY_TENANT && (
                <>
                  {" "}
                  of <Plain text={who.tenant} />
                </>
              )}
            </span>
          </>
        )}
        <Menu
          label="Settings"
          kind="bare square slim"
          items={[
            ...THEMES.map((name) => ({ label: THEME_WORDS[name], act: () => chooseTheme(name), isChosen: theme.value === name })),
            { label: "Keys", act: () => (hasKeys.value = true) },
            { label: "Sign out", act: leave },
          ]}
        >
          <Icon name="gear" />
        </Menu>
      </div>
      <Dialog title="Keys" isOpen={hasKeys}>
        <KeyTable />
      </Dialog>
    </header>
  );
}

function initials(user: string): string {
  const words = user.split(/[\s._-]+/).filter(Boolean);
  return (words.length > 1 ? `${words[0]?.[0] ?? ""}${words.at(-1)?.[0] ?? ""}` : user.slice(0, 2)).toUpperCase();
}

function RecentSession({ session, isHere }: { session: string; isHere: boolean }) {
  const facts = useSessionFacts(session);
  return (
    <a class="to" href={address(session)} aria-current={isHere ? "true" : undefined}>
      <span class={`dot ${facts?.role ?? ""}`} aria-hidden="true" />
      <span class="cut">
        <Plain text={facts?.title || session} isCut />
      </span>
      {facts && <span class="only-read">: {facts.doing}</span>}
    </a>
  );
}

/** The head of a session: its title, what it does and has cost, what one can do with it, and its rooms as tabs. */
import { useSignal } from "@preact/signals";
import { useHost } from "../host/host_context";
import { findRoom, SESSION_ROOMS } from "../rooms";
import { address, type Place } from "../route";
import { capitalised } from "../store/capitalised";
import type { SessionFacts } from "../store/session_row";
import { act, ActionButton, SILENT, Told, type Telling } from "./action";
import { dollars } from "./amounts";
import { Icon } from "./icon";
import { Menu } from "./menu";
import { Since } from "./moment";
import { Plain } from "./plain";
import { fork, pauseItem, stopItem, StopQuestion } from "./session_commands";

interface Props {
  readonly session: string;
  readonly place: Place;
  readonly facts: SessionFacts | null;
}

export function SessionHead({ session, place, facts }: Props) {
  const current = findRoom(SESSION_ROOMS, place.room);
  return (
    <div class="session-head">
      <div class="session-line">
        <a class="button bare square slim only-phone" href={address(null, "now")} aria-label="All sessions">
          <Icon name="left" />
        </a>
        <h1 class="cut">
          <Plain text={facts?.title || session} isCut />
        </h1>
        {facts && (
          <>
            <span class={`pill ${facts.role}`}>{capitalised(facts.doing)}</span>
            <span class="soft small extra cut">
              <Plain text={facts.agent} />
              {facts.isLive && <> · {dollars(facts.cost)}</>}
              {facts.since !== null && (
                <>
                  {" "}
                  · <Since at={facts.since} />
                </>
              )}
            </span>
          </>
        )}
        <SessionActions session={session} facts={facts} />
      </div>
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

function SessionActions({ session, facts }: { session: string; facts: SessionFacts | null }) {
  const host = useHost();
  const telling = useSignal<Telling>(SILENT);
  const isStopping = useSignal(false);
  const doing = async (done: string, action: () => Promise<unknown>) => {
    await act(telling, done, action);
  };
  const items = [
    pauseItem(host, session, facts?.isSuspended, doing),
    { label: "Compact the context", act: () => void doing("Compacts", () => host.call("compact", { session, body: {} })) },
    { label: "Copy its id", act: () => void doing("Copied", () => navigator.clipboard.writeText(session)) },
    stopItem(isStopping),
  ];
  return (
    <div class="session-actions">
      <Told telling={telling} />
      <ActionButton kind="bare slim" label="Fork" act={() => doing("Forked", () => fork(host, session))}>
        <Icon name="fork" />
        <span class="extra">Fork</span>
      </ActionButton>
      {!facts?.hasEnded && (
        <Menu label="More: suspend, compact, stop" kind="bare square slim" items={items} head={<code class="tiny">{<Plain text={session} />}</code>}>
          <Icon name="more" />
        </Menu>
      )}
      <StopQuestion session={session} isStopping={isStopping} doing={doing} />
    </div>
  );
}

/** The head of a session: its title, what it does and has cost, what one can do with it, and its rooms as tabs. */
import { useSignal } from "@preact/signals";
import { useHost } from "../host/host_context";
import { findRoom, SESSION_ROOMS } from "../rooms";
import { address, go, type Place } from "../route";
import type { SessionFacts } from "../store/session_row";
import { act, ActionButton, SILENT, Told, type Telling } from "./action";
import { dollars } from "./amounts";
import { Question } from "./dialog";
import { Icon } from "./icon";
import { Menu } from "./menu";
import { Since } from "./moment";
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
      <div class="session-line">
        <a class="button bare square slim only-phone" href={address(null, "now")} aria-label="All sessions">
          <Icon name="left" />
        </a>
        <h1 class="cut">
          <Plain text={facts?.title || session} />
        </h1>
        {facts && (
          <>
            <span class={`pill ${facts.role}`}>{sentence(facts.doing)}</span>
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

function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function SessionActions({ session, facts }: { session: string; facts: SessionFacts | null }) {
  const host = useHost();
  const telling = useSignal<Telling>(SILENT);
  const isStopping = useSignal(false);
  const about = { session };
  const doing = async (done: string, action: () => Promise<unknown>) => {
    await act(telling, done, action);
  };
  const fork = () => doing("Forked", async () => go(address((await host.call("fork", { ...about, body: {} })).session)));
  const items = [
    facts?.isSuspended
      ? { label: "Resume", act: () => void doing("Resumed", () => host.call("resume", about)) }
      : { label: "Suspend", act: () => void doing("Suspended", () => host.call("suspend", about)) },
    { label: "Compact the context", act: () => void doing("Compacts", () => host.call("compact", { ...about, body: {} })) },
    { label: "Copy its id", act: () => void doing("Copied", () => navigator.clipboard.writeText(session)) },
    { label: "Stop for good…", act: () => (isStopping.value = true), isDanger: true },
  ];
  return (
    <div class="session-actions">
      <Told telling={telling} />
      <ActionButton kind="bare slim" label="Fork" act={fork}>
        <Icon name="fork" />
        <span class="extra">Fork</span>
      </ActionButton>
      {!facts?.hasEnded && (
        <Menu label="More: suspend, compact, stop" kind="bare square slim" items={items} head={<code class="tiny">{<Plain text={session} />}</code>}>
          <Icon name="more" />
        </Menu>
      )}
      <Question
        title="Stop for good"
        text="The session ends and cannot go on."
        yes="Stop it"
        isOpen={isStopping}
        act={() => doing("Stopped", () => host.call("stop", { ...about, body: { reason: "stopped in the console" } }))}
      />
    </div>
  );
}

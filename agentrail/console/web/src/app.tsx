/** The frame around the rooms: who is there, what the connection does, and the way to each room. */
import { useSignal, useSignalEffect } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { View } from "./host/interface";
import { HostContext } from "./host/host_context";
import { forgetKey, forgetOffer, keepKey, key, offer } from "./host/key";
import { HostSocket } from "./host/socket";
import { AnotherKey, UNREADABLE } from "./parts/another_key";
import { LinkState } from "./parts/link_state";
import { Navigation } from "./parts/navigation";
import { isolated } from "./parts/plain";
import { SessionHead } from "./parts/session_head";
import { SignIn } from "./parts/sign_in";
import { ROOMS, SESSION_ROOMS, findRoom, type RoomProps, type SessionRoomProps } from "./rooms";
import { place, type Place } from "./route";
import { useView } from "./store/feed";
import { forgetRecent, remember } from "./store/recent";
import { useSessionFacts } from "./store/session_row";
import { waitingCount, WaitingContext } from "./store/waiting";

const ADDRESS = new URL("v1/ws", document.baseURI);
ADDRESS.protocol = ADDRESS.protocol.replace("http", "ws");
ADDRESS.hash = "";

export function App() {
  const refusal = useSignal("");
  const enter = (given: string) => {
    forgetOffer();
    refusal.value = "";
    keepKey(given);
  };
  if (key.value === null) return <SignIn refusal={offer.value ? UNREADABLE : refusal.value} enter={enter} />;
  if (offer.value) return <AnotherKey own={key.value} other={offer.value.key} stay={forgetOffer} change={enter} />;
  const leave = (why: string) => {
    refusal.value = why && `The host does not take this key: ${why}.`;
    forgetRecent();
    forgetKey();
  };
  return <Connected key={key.value} secret={key.value} leave={leave} />;
}

function Connected({ secret, leave }: { secret: string; leave: (why: string) => void }) {
  const socket = useMemo(() => new HostSocket(ADDRESS, secret), [secret]);
  useEffect(() => () => socket.close(), [socket]);
  useSignalEffect(() => {
    const link = socket.link.value;
    if (link.state === "refused") leave(link.why);
  });
  return (
    <HostContext.Provider value={socket}>
      <Frame socket={socket} leave={() => leave("")} />
    </HostContext.Provider>
  );
}

function Frame({ socket, leave }: { socket: HostSocket; leave: () => void }) {
  const waiting = useView<View<"ApprovalsView">>("approvals");
  const count = waitingCount(waiting);
  const { session } = place.value;
  return (
    <WaitingContext.Provider value={waiting}>
      <a class="skip" href="#main" onClick={skipToMain}>
        Skip to what is shown
      </a>
      <Navigation place={place.value} who={socket.who.value} waiting={count} leave={leave} />
      <div class="body">
        <LinkState socket={socket} />
        <main id="main" tabIndex={-1} data-in-session={session !== null || undefined}>
          {session === null ? (
            <HostRoom place={place.value} waiting={count} />
          ) : (
            <SessionRoomFrame key={session} session={session} place={place.value} waiting={count} />
          )}
        </main>
      </div>
    </WaitingContext.Provider>
  );
}

function HostRoom({ place, waiting }: { place: Place; waiting: string }) {
  useTitle([findRoom(ROOMS, place.room).title], waiting);
  return <Shown place={place} />;
}

function SessionRoomFrame({ session, place, waiting }: { session: string; place: Place; waiting: string }) {
  const facts = useSessionFacts(session);
  const isThere = facts !== null;
  useEffect(() => {
    if (isThere) remember(session);
  }, [session, isThere]);
  useTitle([isolated(facts?.title || session), findRoom(SESSION_ROOMS, place.room).title], waiting);
  return (
    <>
      <SessionHead session={session} place={place} facts={facts} />
      <Shown place={place} />
    </>
  );
}

/** Names what is shown, and how many decisions wait, in the title of the tab. */
function useTitle(words: readonly string[], waiting: string): void {
  const title = `${waiting && `(${waiting}) `}${[...words, "agentrail"].join(" · ")}`;
  useEffect(() => {
    document.title = title;
  }, [title]);
}

function skipToMain(event: Event): void {
  event.preventDefault(); // the address is that of what is shown
  document.getElementById("main")?.focus();
}

/** The room of the address; it is loaded when it is first entered. */
function Shown({ place }: { place: Place }) {
  const { session } = place;
  const room = session === null ? findRoom(ROOMS, place.room) : findRoom(SESSION_ROOMS, place.room);
  const loaded = useSignal<{ room: unknown; component: unknown } | null>(null);
  const failure = useSignal("");
  const wanted = useRef<unknown>(null);
  useEffect(() => {
    wanted.current = room;
    failure.value = "";
    const loading: Promise<{ readonly default: unknown }> = room.load();
    loading.then(
      (found) => {
        if (wanted.current === room) loaded.value = { room, component: found.default };
      },
      () => {
        failure.value = `The room “${room.title}” could not be loaded: the host may have another version now. Load the page again.`;
      },
    );
  }, [room]);
  if (failure.value) return <p role="alert">{failure.value}</p>;
  if (loaded.value?.room !== room) return <p role="status">Loading …</p>;
  if (session === null) {
    const Room = loaded.value.component as ComponentType<RoomProps>;
    return <Room key={room.title} place={place} />;
  }
  const Room = loaded.value.component as ComponentType<SessionRoomProps>;
  return <Room key={`${room.title} ${session}`} place={place} session={session} />;
}

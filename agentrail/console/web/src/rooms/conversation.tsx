/** A session: its conversation as it streams, and what one can do with it. */
import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useHost } from "../host/host_context";
import { act, Told, SILENT, type Telling } from "../parts/action";
import { ConversationItem } from "../parts/conversation_items";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { SaySomething } from "../parts/say_something";
import { SessionSide } from "../parts/session_side";
import type { SessionRoomProps } from "../rooms";
import { address, go } from "../route";
import { activity, WAITS } from "../store/activity";
import type { Said } from "../store/conversation";
import { useDetail } from "../store/detail";
import { useConversation, type LiveConversation } from "../store/live_conversation";

/** Changes after which the host is asked what the session has and does: the others are shown by themselves. */
const TELLING = /^(Agent|Request|Response|Call|Session|Prompt|Steering|Tool|Tools|Plugin|Model|Approval|AskUser|UserResponded|Compact|Subagent|Labels)/;

export default function ConversationRoom({ session, place }: SessionRoomProps) {
  const detail = useDetail(session);
  const live = useConversation(session, (name) => {
    if (TELLING.test(name) && !name.endsWith("Update")) detail.refresh();
  });
  const telling = useSignal<Telling>(SILENT);
  const problem = live.problem.value ?? detail.problem.value;
  return (
    <div class="session">
      <div class="session-talk">
        {problem && <ProblemNote problem={problem} />}
        <Items session={session} live={live} meant={Number(place.room === "event" ? place.rest[0] : 0)} telling={telling} />
        <LiveLine live={live} waits={detail.view.value?.status?.waits ?? false} />
        <Told telling={telling} />
        {!live.hasEnded.value && !live.problem.value && (
          <SaySomething session={session} live={live} waits={detail.view.value?.status?.waits ?? false} telling={telling} />
        )}
      </div>
      <SessionSide session={session} live={live} detail={detail} telling={telling} />
    </div>
  );
}

const AT_FIRST = 120;
const MORE = 400;
/** For how long after a wheel, a finger or a key what scrolls is taken for a person's doing. */
const HAND_MS = 1000;

function Items(props: { session: string; live: LiveConversation; meant: number; telling: Signal<Telling> }) {
  const { session, live, meant, telling } = props;
  const host = useHost();
  const shown = useSignal(AT_FIRST);
  const box = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLOListElement>(null);
  const isAtEnd = useRef(true);
  const touched = useRef(-HAND_MS);
  void live.version.value;
  const { items } = live.conversation;
  const meantAt = meant ? items.findIndex((item) => item.seq >= meant) : -1;
  const first = Math.max(0, Math.min(items.length - shown.value, meantAt < 0 ? items.length : meantAt));
  const stay = useRef(() => {});
  stay.current = () => {
    const element = box.current;
    if (element && isAtEnd.current && meantAt < 0) element.scrollTop = element.scrollHeight;
  };
  const touch = () => (touched.current = performance.now());
  // Items get their heights when they come into sight, and the browser moves what is shown along: only a person leaves the end.
  const scrolled = ({ scrollTop, clientHeight, scrollHeight }: HTMLDivElement) => {
    if (scrollTop + clientHeight > scrollHeight - 40) isAtEnd.current = true;
    else if (performance.now() - touched.current < HAND_MS) isAtEnd.current = false;
    else stay.current();
  };
  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => stay.current()); // pictures come later, and so do items out of sight
    if (list.current) watch.observe(list.current);
    return () => watch.disconnect();
  }, []);
  const more = () => {
    isAtEnd.current = false; // else what is added would take the person back to the end
    shown.value += MORE;
  };
  const hasMeant = meantAt >= 0;
  useEffect(() => {
    if (hasMeant) box.current?.querySelector(`[data-seq="${items[meantAt]?.seq}"]`)?.scrollIntoView({ block: "center" });
  }, [meant, hasMeant]);

  const fork = async (said: Said) => {
    await act(telling, "Forked", async () => {
      const made = await host.call("fork", { session, body: { at: said.ref } });
      go(address(made.session));
    });
  };
  return (
    <div
      ref={box}
      class="session-items"
      tabIndex={0}
      role="log"
      aria-label="The conversation"
      aria-live="off"
      onWheel={touch}
      onTouchMove={touch}
      onPointerDown={touch}
      onKeyDown={touch}
      onFocusIn={touch}
      onScroll={({ currentTarget }) => scrolled(currentTarget)}
    >
      {first > 0 && (
        <button type="button" onClick={more}>
          Show what was before ({first} items)
        </button>
      )}
      {items.length === 0 && <p>Nothing has been said yet.</p>}
      <ol class="conversation" ref={list}>
        {items.slice(first).map((item) => (
          <ConversationItem
            key={item.number}
            item={item}
            version={item.version}
            session={session}
            isMeant={item.seq === meant}
            promptActions={(said) => (
              <button type="button" class="small" onClick={() => void fork(said)}>
                Fork before this
              </button>
            )}
          />
        ))}
      </ol>
    </div>
  );
}

/** Says in a live region what the session does, once for each phase, and not for each piece of a text. */
function LiveLine({ live, waits }: { live: LiveConversation; waits: boolean }) {
  void live.version.value;
  const { status } = live.conversation;
  const words: Readonly<Record<string, string>> = {
    idle: "It waits for a prompt.",
    running: "It works …",
    streaming: "The model answers …",
    executing_tools: "Tools run …",
    ended: "The session has ended.",
    [WAITS]: "It waits for a person.",
  };
  const doing = activity({ phase: status.phase, waits });
  return (
    <p role="status" class="live-line">
      {words[doing] ?? doing} {status.status && <Plain text={status.status} />}
    </p>
  );
}

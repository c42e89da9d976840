/** A session: its conversation as it streams, what waits for a person, and what one can say. */
import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Told, SILENT, type Telling } from "../parts/action";
import { ConversationItem } from "../parts/conversation_items";
import { Empty } from "../parts/empty";
import { useEndInSight } from "../parts/end_in_sight";
import { HeldHere } from "../parts/held_here";
import type { Held } from "../parts/held_call";
import { Icon } from "../parts/icon";
import { Lazy } from "../parts/lazy";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { SaySomething } from "../parts/say_something";
import { SessionSide } from "../parts/session_side";
import type { SessionRoomProps } from "../rooms";
import { activity, WAITS } from "../store/activity";
import type { Item, Said } from "../store/conversation";
import { useDetail } from "../store/detail";
import { useConversation, type LiveConversation } from "../store/live_conversation";

/** Changes after which the host is asked what the session has and does: the others are shown by themselves. */
const TELLING = /^(Agent|Request|Response|Call|Session|Prompt|Steering|Tool|Tools|Plugin|Model|Approval|AskUser|UserResponded|Compact|Subagent|Labels)/;

/** Where there is room for the panel beside the conversation; elsewhere it is a sheet, which is closed at first. */
const isWide = matchMedia("(min-width: 68rem)");
/** Whether the panel is open; it stays as it was left in the next session. */
const hasSide = signal(isWide.matches);

export default function ConversationRoom({ session, place }: SessionRoomProps) {
  const detail = useDetail(session);
  const live = useConversation(session, (name) => {
    if (TELLING.test(name) && !name.endsWith("Update")) detail.refresh();
  });
  const telling = useSignal<Telling>(SILENT);
  const problem = live.problem.value ?? detail.problem.value;
  const status = detail.view.value?.status;
  void live.version.value;
  const waits = (status?.waits ?? false) || hasUntold(live.conversation.items, status?.held ?? []);
  return (
    <div class="session" data-side={hasSide.value || undefined}>
      <div class="talk">
        {!hasSide.value && (
          <button type="button" class="bare square slim side-open" aria-label="Show the panel about the session" onClick={() => (hasSide.value = true)}>
            <Icon name="panel" />
          </button>
        )}
        {problem && <ProblemNote problem={problem} />}
        <Items session={session} live={live} meant={Number(place.room === "event" ? place.rest[0] : 0)} />
        <HeldHere items={status?.held ?? []} telling={telling} decided={detail.refresh} />
        <LiveLine live={live} waits={waits} />
        <Told telling={telling} />
        {!live.hasEnded.value && !live.problem.value && (
          <SaySomething session={session} live={live} waits={waits} isUntitled={detail.view.value?.title === ""} telling={telling} />
        )}
      </div>
      {hasSide.value && (
        <SessionSide session={session} live={live} detail={detail} telling={telling} close={() => (hasSide.value = false)} />
      )}
    </div>
  );
}

/** The last items that are looked at for what waits. */
const LAST = 20;

/**
 * Whether a call waits for a person of which the host has not told yet when it was asked last: its event comes first, and
 * what is written in between would give the call up without a question.
 */
function hasUntold(items: readonly Item[], held: readonly Held[]): boolean {
  return items.slice(-LAST).some((item) => {
    if (item.kind !== "call") return false;
    const isWaiting = item.state === "held" || (item.question !== null && item.question.response === null && item.until === null);
    return isWaiting && held.every(({ call_id: call }) => call !== item.callId);
  });
}

const AT_FIRST = 120;
const MORE = 400;

function Items(props: { session: string; live: LiveConversation; meant: number }) {
  const { session, live, meant } = props;
  const shown = useSignal(AT_FIRST);
  const list = useRef<HTMLOListElement>(null);
  void live.version.value;
  const { items } = live.conversation;
  const meantAt = meant ? items.findIndex((item) => item.seq >= meant) : -1;
  const first = Math.max(0, Math.min(items.length - shown.value, meantAt < 0 ? items.length : meantAt));
  const leaveEnd = useEndInSight(list, meantAt < 0);
  const more = () => {
    leaveEnd(); // else what is added would take the person back to the end
    shown.value += MORE;
  };
  const hasMeant = meantAt >= 0;
  useEffect(() => {
    if (hasMeant) list.current?.querySelector(`[data-seq="${items[meantAt]?.seq}"]`)?.scrollIntoView({ block: "center" });
  }, [meant, hasMeant]);

  /** The prompt before which one is about to go back. */
  const back = useSignal<Said | null>(null);
  const isGoingBack = useSignal(false);
  return (
    <div class="session-items" role="log" aria-label="The conversation" aria-live="off">
      {first > 0 && (
        <button type="button" class="bare" onClick={more}>
          Show what was before ({first} items)
        </button>
      )}
      {items.length === 0 && (
        <Empty icon="model" title="Nothing has been said yet">
          Say below what is to be done.
        </Empty>
      )}
      <ol class="conversation" ref={list}>
        {items.slice(first).map((item) => (
          <ConversationItem
            key={item.number}
            item={item}
            version={item.version}
            session={session}
            isMeant={item.seq === meant}
            promptActions={(said) => (
              <button
                type="button"
                class="bare slim"
                onClick={() => {
                  back.value = said;
                  isGoingBack.value = true;
                }}
              >
                Go back …
              </button>
            )}
          />
        ))}
      </ol>
      {isGoingBack.value && back.value && <Lazy load={loadGoBack} props={{ session, said: back.value, isOpen: isGoingBack }} />}
    </div>
  );
}

async function loadGoBack() {
  return (await import("../parts/go_back")).GoBack;
}

/** Says in a live region what the session does, once for each phase, and not for each piece of a text. */
function LiveLine({ live, waits }: { live: LiveConversation; waits: boolean }) {
  void live.version.value;
  const { status } = live.conversation;
  const words: Readonly<Record<string, string>> = {
    idle: "It waits for a prompt.",
    working: "It works …",
    "writing an answer": "The model answers …",
    "running tools": "Tools run …",
    ended: "The session has ended.",
    [WAITS]: "It waits for a person.",
  };
  const doing = activity({ phase: status.phase, waits });
  return (
    <p role="status" class="live-line hint">
      <span class="only-read">{words[doing] ?? doing}</span> {status.status && <Plain text={status.status} />}
    </p>
  );
}

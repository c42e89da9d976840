/** The conversation of a session as it goes on, for the components that show it. */
import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { Envelope, Problem } from "../host/interface";
import { Refused, type HostSocket } from "../host/socket";
import { Conversation } from "./conversation";

const HIDDEN_MS = 250;
/** Problems of a session that has no stream of events: it has ended, or its journal is only looked at. */
const ONLY_STORED = /:(session-not-alive|journal-read-only)$/;

/** Gives the durable events of a session from its records, up to record *last*. */
export async function readStored(
  host: HostSocket,
  session: string,
  take: (envelope: Envelope) => void,
  last = Infinity,
): Promise<void> {
  for (let since = 0, isMore = true; isMore; ) {
    const page = await host.call("records", { session, query: { since } });
    for (const record of page.records) {
      if (record.number > last) return;
      for (const envelope of record.events) take(envelope as unknown as Envelope);
      since = record.number;
    }
    isMore = page.more && page.records.length > 0;
  }
}

export interface LiveConversation {
  readonly conversation: Conversation;
  /** Changes at most once a frame, whenever the conversation has changed. */
  readonly version: ReadonlySignal<number>;
  /** Why no more of it comes; null while it does. */
  readonly problem: ReadonlySignal<Problem | null>;
  /** Whether the session has ended. */
  readonly hasEnded: ReadonlySignal<boolean>;
}

/** Follows *session* from its beginning; *onEvent* is called with the name of each event. */
export function useConversation(session: string, onEvent: (name: string) => void): LiveConversation {
  const host = useHost();
  const conversation = useMemo(() => new Conversation(), [session, host]);
  const version = useSignal(0);
  const problem = useSignal<Problem | null>(null);
  const hasEnded = useSignal(false);
  useEffect(() => {
    let isDue = false;
    const show = () => {
      isDue = false;
      version.value = conversation.version;
    };
    const soon = () => {
      if (isDue) return;
      isDue = true;
      if (document.hidden) setTimeout(show, HIDDEN_MS);
      else requestAnimationFrame(show);
    };
    const take = (envelope: Envelope) => {
      conversation.apply(envelope.event, envelope);
      onEvent(envelope.event.$);
      soon();
    };
    const readEnded = async (found: Problem) => {
      hasEnded.value = true;
      try {
        await readStored(host, session, take);
      } catch (error) {
        problem.value = error instanceof Refused ? error.problem : found;
      }
    };
    return host.listenToEvents(session, "0.0", {
      event: take,
      gap: () => {
        conversation.gap();
        soon();
      },
      end: (found) => {
        if (found && ONLY_STORED.test(found.type) && conversation.items.length === 0) void readEnded(found);
        else problem.value = found;
        hasEnded.value ||= found === null;
      },
    });
  }, [host, session]);
  return { conversation, version, problem, hasEnded };
}

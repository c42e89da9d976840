/** The conversation of a session as it goes on, for the components that show it. */
import { useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { Problem } from "../host/interface";
import { Conversation } from "./conversation";

const HIDDEN_MS = 250;

export interface LiveConversation {
  readonly conversation: Conversation;
  /** Changes at most once a frame, whenever the conversation has changed. */
  readonly version: ReadonlySignal<number>;
  /** Why no more of it comes; null while it does. */
  readonly problem: ReadonlySignal<Problem | null>;
  /** Whether the session has ended. */
  readonly hasEnded: ReadonlySignal<boolean>;
}

/** Follows *session* from its beginning; *onChange* is called with the name of each change. */
export function useConversation(session: string, onChange: (name: string) => void): LiveConversation {
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
    return host.listenToConversation(session, {
      changes: (told, seq) => {
        for (const change of told.changes) {
          conversation.apply(change, seq, told);
          onChange(change.$);
        }
        soon();
      },
      gap: () => {
        conversation.gap();
        soon();
      },
      end: (found) => {
        problem.value = found;
        hasEnded.value = found === null;
      },
    });
  }, [host, session]);
  return { conversation, version, problem, hasEnded };
}

/** What a fork has from its origin: the conversation there, up to the record after which it was forked. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useHost } from "../host/host_context";
import { Conversation } from "../store/conversation";
import { ConversationItem } from "./conversation_items";

/** The most items that are shown; the origin's own page has all. */
const MOST = 200;

export function Past({ origin, at }: { origin: string; at: number }) {
  const host = useHost();
  const past = useSignal<Conversation | null>(null);
  useEffect(() => {
    const found = new Conversation();
    return host.listenToConversation(
      origin,
      {
        changes: (told, seq) => told.changes.forEach((change) => found.apply(change, seq, told)),
        gap: () => found.gap(),
        end: (problem) => {
          if (!problem) past.value = found; // else it was deleted, or the key may not see it: the note names it
        },
      },
      at,
    );
  }, [host, origin, at]);
  const items = past.value?.items ?? [];
  if (items.length === 0) return null;
  return (
    <details class="past" open>
      <summary>What it has from there: {items.length} items</summary>
      <ol class="conversation">
        {items.slice(-MOST).map((item) => (
          <ConversationItem
            key={item.number}
            item={item}
            version={item.version}
            session={origin}
            isMeant={false}
            promptActions={null}
          />
        ))}
      </ol>
    </details>
  );
}

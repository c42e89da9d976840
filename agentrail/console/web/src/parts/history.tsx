/** The messages of a session as the model has them: with what a fork has from its origin, and without what was compacted. */
import { useSignal } from "@preact/signals";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { act, SILENT, Told, type Telling } from "./action";
import { Parts } from "./conversation_items";
import { JsonText } from "./json_text";
import { Plain } from "./plain";

type Message = View<"MessagesView">["items"][number];

const PAGE = 50;

const ROLES: Readonly<Record<Message["$"], string>> = { UserMessage: "user", AssistantMessage: "model", ToolMessage: "tool" };

export function History({ session }: { session: string }) {
  const host = useHost();
  const items = useSignal<readonly Message[]>([]);
  const next = useSignal<number | null | undefined>(undefined);
  const telling = useSignal<Telling>(SILENT);
  const load = async (after?: number) => {
    await act(telling, "", async () => {
      const query = { limit: PAGE, ...(after !== undefined && { after }) };
      const page = await host.call("messages", { session, query });
      items.value = after === undefined ? page.items : [...items.value, ...page.items];
      next.value = page.next;
    });
  };
  return (
    <details class="history" onToggle={(event) => event.currentTarget.open && void load()}>
      <summary>Messages, as the model has them</summary>
      <Told telling={telling} />
      <ol class="conversation">
        {items.value.map((message) => (
          <li class="item">
            <h3>{ROLES[message.$]}</h3>
            <Parts parts={message.parts ?? []} what="message" />
            {message.$ === "AssistantMessage" &&
              (message.calls ?? []).map((call) => (
                <div class="call">
                  <Plain text={call.name} />
                  <JsonText value={call.args ?? { json: "{}" }} what="arguments" />
                </div>
              ))}
          </li>
        ))}
      </ol>
      {next.value != null && (
        <button type="button" onClick={() => void load(next.value ?? undefined)}>
          Show more messages
        </button>
      )}
    </details>
  );
}

/** Where one writes: a prompt when no turn is open, steering while one is; and the way to end the turn. */
import { useSignal, type Signal } from "@preact/signals";
import { useHost } from "../host/host_context";
import type { BodyOf } from "../host/interface";
import type { LiveConversation } from "../store/live_conversation";
import { act, ActionButton, type Telling } from "./action";
import { ConfirmedButton } from "./confirmed_button";
import { Plain } from "./plain";

type Message = BodyOf<"prompt">["message"];

const NOT_MADE = "the call that waits for a person is not made.";

interface Props {
  readonly session: string;
  readonly live: LiveConversation;
  /** Whether the open turn waits for a person. */
  readonly waits: boolean;
  readonly telling: Signal<Telling>;
}

export function SaySomething({ session, live, waits, telling }: Props) {
  const host = useHost();
  const text = useSignal("");
  const pictures = useSignal<readonly File[]>([]);
  void live.version.value;
  const { isTurnOpen, queue } = live.conversation.status;

  const send = async (done: string, action: (words: string) => Promise<unknown>) => {
    const words = text.value;
    if (!words.trim()) return;
    text.value = ""; // so that one can go on writing; it comes back if the host does not take it
    if (!(await act(telling, done, () => action(words)))) text.value ||= words;
  };
  const prompt = () =>
    send(isTurnOpen ? "Queued" : "Sent", async (words) => {
      await host.call("prompt", { session, body: { message: await messageOf(words, pictures.value) } });
      pictures.value = [];
    });
  const steer = (when: "gap" | "now") =>
    send("Steered", (words) => host.call("steer", { session, body: { text: words, when } }));
  const abort = async () => {
    await act(telling, "Aborted", () => host.call("abort", { session, body: { reason: "aborted in the console" } }));
  };
  const onKeyDown = (event: KeyboardEvent & { currentTarget: HTMLTextAreaElement }) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (waits) event.currentTarget.form?.querySelector<HTMLElement>(".actions button")?.click(); // asks first
    else void (isTurnOpen ? steer("gap") : prompt());
  };

  return (
    <form class="say" onSubmit={(event) => event.preventDefault()}>
      <Queue session={session} queue={queue} telling={telling} />
      <label for="say">{isTurnOpen ? "Steer the turn" : "Prompt"}</label>
      <textarea
        id="say"
        rows={3}
        dir="auto"
        value={text.value}
        aria-describedby="say-keys"
        onInput={(event) => (text.value = event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <div class="actions">
        {isTurnOpen ? (
          <>
            {waits ? (
              <>
                <ConfirmedButton label="Steer" question={`What is said ends the wait: ${NOT_MADE}`} act={() => steer("gap")} />
                <ConfirmedButton label="Send as a prompt" question={`A new prompt ends the turn: ${NOT_MADE}`} act={prompt} />
              </>
            ) : (
              <>
                <ActionButton kind="main-action" act={() => steer("gap")}>
                  Steer at the gap
                </ActionButton>
                <ActionButton act={() => steer("now")}>Steer now</ActionButton>
                <ActionButton act={prompt}>Queue as a prompt</ActionButton>
              </>
            )}
            <ActionButton kind="danger" act={abort}>
              Abort the turn
            </ActionButton>
          </>
        ) : (
          <ActionButton kind="main-action" act={prompt}>
            Send
          </ActionButton>
        )}
        <label class="file">
          Pictures
          <input
            type="file"
            multiple
            accept="image/png,image/jpeg,image/gif,image/webp"
            onChange={(event) => (pictures.value = [...(event.currentTarget.files ?? [])])}
          />
        </label>
      </div>
      <p id="say-keys" class="hint">
        Enter {isTurnOpen ? (waits ? "asks first, as something waits for a person" : "steers") : "sends"}, Shift+Enter begins a new line.
      </p>
    </form>
  );
}

async function messageOf(words: string, pictures: readonly File[]): Promise<Message> {
  if (pictures.length === 0) return words;
  const images = await Promise.all(
    pictures.map(async (file) => ({ $: "Image" as const, media_type: file.type, data: await base64(file) })),
  );
  return [{ $: "Text", text: words }, ...images];
}

function base64(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onerror = () => reject(new Error(`“${file.name}” cannot be read`));
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.readAsDataURL(file);
  });
}

function Queue(props: { session: string; queue: readonly { ref: string; text: string }[]; telling: Signal<Telling> }) {
  const host = useHost();
  const { session, queue, telling } = props;
  if (queue.length === 0) return null;
  const withdraw = async (ref: string) => {
    await act(telling, "Withdrawn", () => host.call("withdraw", { session, body: { ref } }));
  };
  return (
    <section aria-label="Prompts that wait for the end of the turn">
      <ol class="queue">
        {queue.map(({ ref, text }) => (
          <li key={ref}>
            <Plain text={text.slice(0, 200)} /> <ActionButton act={() => withdraw(ref)}>Withdraw</ActionButton>
          </li>
        ))}
      </ol>
    </section>
  );
}

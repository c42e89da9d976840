/** The composer: a prompt when no turn is open, steering while one is; and the way to stop the turn. */
import { useSignal, type Signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { useHost } from "../host/host_context";
import type { BodyOf } from "../host/interface";
import type { LiveConversation } from "../store/live_conversation";
import { act, ActionButton, type Telling } from "./action";
import { Question } from "./dialog";
import { Icon } from "./icon";
import { Menu } from "./menu";
import { usePageKeys } from "./page_keys";
import { Plain } from "./plain";
import { REASON } from "./session_commands";

type Message = BodyOf<"prompt">["message"];

/** When a text is to count while a turn is open. */
const WAYS = { gap: "Next step", now: "Now, breaking off", turn: "As a new turn" } as const;
type Way = keyof typeof WAYS;

const NOT_MADE = "What waits for a person is then not made.";

interface Props {
  readonly session: string;
  readonly live: LiveConversation;
  /** Whether the open turn waits for a person. */
  readonly waits: boolean;
  /** Whether the session has no title: its first prompt gives it one. */
  readonly isUntitled: boolean;
  readonly telling: Signal<Telling>;
}

export function SaySomething({ session, live, waits, isUntitled, telling }: Props) {
  const host = useHost();
  const text = useSignal("");
  const pictures = useSignal<readonly File[]>([]);
  const way = useSignal<Way>("gap");
  const isAsking = useSignal(false);
  const isStopping = useSignal(false);
  const form = useRef<HTMLFormElement>(null);
  useRoomAbove(form);
  void live.version.value;
  const { isTurnOpen, queue } = live.conversation.status;

  const sendAs = async (done: string, action: (words: string) => Promise<unknown>) => {
    const words = text.value;
    if (!words.trim()) return;
    text.value = ""; // so that one can go on writing; it comes back if the host does not take it
    if (!(await act(telling, done, () => action(words)))) text.value ||= words;
  };
  const prompt = () =>
    sendAs(isTurnOpen ? "Queued" : "Sent", async (words) => {
      if (isUntitled && live.conversation.items.length === 0) await host.call("label", { session, body: { title: titleOf(words) } });
      await host.call("prompt", { session, body: { message: await messageOf(words, pictures.value) } });
      pictures.value = [];
    });
  const steer = (when: "gap" | "now") =>
    sendAs("Steered", (words) => host.call("steer", { session, body: { text: words, when } }));
  const send = () => (!isTurnOpen || way.value === "turn" ? prompt() : steer(way.value));
  const sendAfterAsking = async () => {
    if (waits && text.value.trim()) isAsking.value = true;
    else await send();
  };
  const abort = async () => {
    await act(telling, "Stopped", () => host.call("abort", { session, body: REASON }));
  };
  const stop = async () => {
    if (waits) isStopping.value = true;
    else await abort();
  };
  usePageKeys(isTurnOpen ? { Escape: () => void stop() } : {});
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      void sendAfterAsking();
    } else if (event.key === "Escape" && isTurnOpen) {
      event.preventDefault();
      void stop();
    }
  };

  return (
    <form class="say" ref={form} onSubmit={(event) => event.preventDefault()}>
      <Queue session={session} queue={queue} telling={telling} />
      {pictures.value.length > 0 && (
        <ul class="attached" aria-label="Pictures that go along">
          {pictures.value.map((file) => (
            <li class="pill">
              <Plain text={file.name} />
              <button
                type="button"
                class="bare square slim"
                aria-label={`Leave out ${file.name}`}
                onClick={() => (pictures.value = pictures.value.filter((other) => other !== file))}
              >
                <Icon name="cross" />
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="say-box">
        <label class="button bare square slim clip">
          <Icon name="clip" />
          <input
            type="file"
            class="only-read"
            multiple
            aria-label="Attach pictures"
            accept="image/png,image/jpeg,image/gif,image/webp"
            onChange={(event) => {
              pictures.value = [...pictures.value, ...(event.currentTarget.files ?? [])];
              event.currentTarget.value = "";
            }}
          />
        </label>
        <textarea
          id="say"
          rows={1}
          dir="auto"
          aria-label="Message"
          aria-describedby="say-keys"
          placeholder={waits ? "Or tell the agent something" : isTurnOpen ? "Tell the agent something" : "What is to be done?"}
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        {isTurnOpen && (
          <>
            <Menu
              label={`When it counts: ${WAYS[way.value]}`}
              items={Object.entries(WAYS).map(([name, label]) => ({
                label,
                isChosen: name === way.value,
                act: () => (way.value = name as Way),
              }))}
            >
              <span class="extra">{WAYS[way.value]}</span>
              <Icon name="down" />
            </Menu>
            <ActionButton kind="square slim danger stop" label="Stop the turn" act={stop}>
              <Icon name="stop" />
            </ActionButton>
          </>
        )}
        <ActionButton kind="main square slim" label="Send" act={sendAfterAsking}>
          <Icon name="send" />
        </ActionButton>
      </div>
      <p id="say-keys" class="say-keys extra">
        <kbd>Enter</kbd> send · <kbd>Shift</kbd> <kbd>Enter</kbd> new line
        {isTurnOpen && (
          <>
            {" "}
            · <kbd>Esc</kbd> stop the turn
          </>
        )}
      </p>
      <Question title="Something waits for a person" text={`${NOT_MADE} Send it all the same?`} yes="Send" isOpen={isAsking} act={send} />
      <Question title="Stop the turn" text={`${NOT_MADE} Stop the turn all the same?`} yes="Stop the turn" isOpen={isStopping} act={abort} />
    </form>
  );
}

/** Has what gets the focus stop above the composer, however much is written there. */
function useRoomAbove(form: { readonly current: HTMLFormElement | null }): void {
  useLayoutEffect(() => {
    const { style } = document.documentElement;
    const watch = new ResizeObserver(([box]) => (style.scrollPaddingBlockEnd = `${box?.target.clientHeight ?? 0}px`));
    if (form.current) watch.observe(form.current);
    return () => {
      watch.disconnect();
      style.scrollPaddingBlockEnd = "";
    };
  }, []);
}

/** The most characters of the title that a session gets from its first prompt. */
const TITLE = 60;

function titleOf(words: string): string {
  const characters = [...words.trim().replace(/\s+/g, " ")];
  return characters.length > TITLE ? `${characters.slice(0, TITLE - 1).join("")}…` : characters.join("");
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
    <section class="card queue" aria-label="Prompts that wait for the end of the turn">
      <ol class="rows">
        {queue.map(({ ref, text }) => (
          <li key={ref}>
            <Icon name="clock" />
            <span class="cut grow">
              <Plain text={text.slice(0, 200)} isCut />
            </span>
            <ActionButton kind="bare slim" act={() => withdraw(ref)}>
              Withdraw
            </ActionButton>
          </li>
        ))}
      </ol>
    </section>
  );
}

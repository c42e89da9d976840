/** What a conversation consists of, one component each; each is drawn again only when it has changed. */
import { useSignal } from "@preact/signals";
import { Component, type ComponentChildren } from "preact";
import type { Part } from "../host/interface";
import { capitalised } from "../store/capitalised";
import type { Answer, Call, CallState, Conversation, Item, Said } from "../store/conversation";
import { address } from "../route";
import type { Role } from "../store/activity";
import { madeDifference, valuesOf } from "../store/call_words";
import { Difference } from "./diff";
import { Folded } from "./folded";
import { Icon, type IconName } from "./icon";
import { JsonText } from "./json_text";
import { Markdown, MOST, safeAddress } from "./markdown";
import { Moment, Since, duration } from "./moment";
import { Past } from "./past";
import { Plain } from "./plain";

interface ItemProps {
  readonly item: Item;
  /** What it was when it was drawn last. */
  readonly version: number;
  readonly session: string;
  /** Whether the address names it. */
  readonly isMeant: boolean;
  /** What one can do with a prompt. */
  readonly promptActions: ((said: Said) => ComponentChildren) | null;
}

/** One item; an item that has not changed is not drawn again. */
export class ConversationItem extends Component<ItemProps> {
  override shouldComponentUpdate(next: ItemProps): boolean {
    const { item, version, isMeant } = this.props;
    return next.item !== item || next.version !== version || next.isMeant !== isMeant;
  }

  override render({ item, version, session, isMeant, promptActions }: ItemProps) {
    return (
      <li class={`item item-${item.kind}`} data-seq={item.seq} data-meant={isMeant || undefined}>
        <span class="item-at">
          {item.kind === "prompt" && promptActions?.(item)}
          <a href={address(session, "event", item.seq)}>
            <Moment at={item.at} />
          </a>
        </span>
        <Body item={item} version={version} session={session} />
      </li>
    );
  }
}

/** Items change in place: a component whose props are the same is not drawn again, so each gets the version too. */
interface Versioned {
  readonly version: number;
}

function Body({ item, version, session }: Versioned & { item: Item; session: string }) {
  switch (item.kind) {
    case "prompt":
    case "steering":
      return <SaidBody said={item} version={version} />;
    case "answer":
      return <AnswerBody answer={item} version={version} />;
    case "call":
      return <CallBody call={item} version={version} session={session} />;
    case "note":
      return (
        <div class={`note ${item.mood}`}>
          <Folded text={item.text} what="note" />
          {item.about && (
            <a href={address(item.about)}>
              <Plain text={item.about} />
            </a>
          )}
          {item.upTo > 0 && <Past origin={item.about} at={item.upTo} />}
        </div>
      );
  }
}

function SaidBody({ said }: Versioned & { said: Said }) {
  const who = said.by || "somebody";
  return (
    <div class="asked">
      <p class="asked-by">
        <Plain text={who} />
        {said.kind === "steering" && ` steers (${said.status})`}
      </p>
      <div class="asked-words">
        <Folded text={said.text} what={said.kind} />
        <Parts parts={said.attachments} what={said.kind} />
      </div>
    </div>
  );
}

function AnswerBody({ answer }: Versioned & { answer: Answer }) {
  const { text, thinking, isLive, hasGap } = answer;
  return (
    <div class="answer" aria-busy={isLive}>
      {thinking && (
        <details class="soft small">
          <summary>Thinking{isLive && !text ? " …" : ""}</summary>
          <Folded text={thinking} what="thinking" />
        </details>
      )}
      {hasGap && <p class="hint">Pieces of this answer were missed; the whole follows.</p>}
      {text.length > MOST ? <Folded text={text} what="answer" /> : <Markdown text={text} />}
      {isLive && <span class="caret" role="img" aria-label="still writing" />}
    </div>
  );
}

export function Parts({ parts, what }: { parts: readonly Part[]; what: string }) {
  return (
    <>
      {parts.map((part) => (
        <PartView part={part} what={what} />
      ))}
    </>
  );
}

const PICTURES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

function PartView({ part, what }: { part: Part; what: string }) {
  switch (part.$) {
    case "Text":
    case "Thinking":
      return <Folded text={part.text} what={what} isCode={what === "result"} />;
    case "Data":
      return <JsonText value={part.data} what={what} />;
    case "Image":
      return PICTURES.has(part.media_type) ? (
        <img class="picture" src={`data:${part.media_type};base64,${part.data}`} alt={`A picture in the ${what}`} />
      ) : (
        <p>
          A picture of the type <Plain text={part.media_type} />
        </p>
      );
    case "File": {
      const url = part.reference ? safeAddress(part.reference) : null;
      return (
        <p>
          A file: <Plain text={part.name || part.media_type} />{" "}
          {url && (
            <a href={url.href} target="_blank" rel="noopener noreferrer nofollow">
              {url.host}
            </a>
          )}
        </p>
      );
    }
  }
}

/** How a call stands: its icon, its colour, and the words beside its name; no words if it simply went well. */
const STATES: Readonly<Partial<Record<CallState, readonly [IconName, Role, string]>>> = {
  asked: ["clock", "", "Asked"],
  held: ["person", "is-person", "Waits for you"],
  running: ["tool", "is-work", "Running"],
  done: ["check", "is-good", ""],
  failed: ["cross", "is-bad", "Failed"],
};

function stateOf(state: CallState): readonly [IconName, Role, string] {
  return STATES[state] ?? ["trouble", "is-bad", capitalised(state)];
}

/** The longest result that stands in the line of its call. */
const SHORT = 28;

function shortResult(call: Call): string {
  const [part, ...more] = call.content;
  const text = part?.$ === "Text" && more.length === 0 ? part.text : "";
  return call.state === "done" && text.length <= SHORT && !text.includes("\n") ? text : "";
}

function CallBody({ call, session }: Versioned & { call: Call; session: string }) {
  const isOpen = useSignal(false);
  const pictures = call.content.filter((part) => part.$ === "Image");
  const words = call.content.filter((part) => part.$ !== "Image");
  const took = call.since !== null && call.until !== null ? duration(call.until - call.since) : null;
  const [icon, role, state] = stateOf(call.state);
  const difference = madeDifference(call.name, call.details);
  const result = shortResult(call);
  const isBad = role === "is-bad";
  const reason = call.state === "held" ? "" : call.reason; // the card says why
  const response = call.question?.response ?? null;
  const hasFailed = isBad && !isOpen.value && words.length > 0;
  const hasMore = reason || call.progress || pictures.length > 0 || difference || response !== null || hasFailed;
  return (
    <div class="call" data-state={call.state}>
      <details open={isOpen.value} onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
        <summary>
          <span class={call.branch ? "is-sub" : role}>
            <Icon name={call.branch ? "subagent" : icon} />
          </span>
          <code class="call-name">
            <Plain text={call.name || "a call"} />
          </code>
          <span class="call-values cut">
            <Plain text={call.branch ? [call.agent, call.task].filter(Boolean).join(" · ") : valuesOf(call.args).join(", ")} isCut />
          </span>
          {result && (
            <span class="call-values extra">
              <Plain text={result} />
            </span>
          )}
          <span class={`call-state ${role === "is-work" ? "" : role}`}>{state || <span class="only-read">done</span>}</span>
          <span class="call-time">
            {call.state === "running" && call.since !== null && <Since at={call.since} />}
            {took}
          </span>
        </summary>
        {isOpen.value && (
          <div class="call-more">
            {call.args && (
              <>
                <h2>Arguments</h2>
                <JsonText value={call.args} what="arguments" />
              </>
            )}
            {words.length > 0 && <h2>Result</h2>}
            <Parts parts={words} what="result" />
            {call.details && (
              <>
                <h2>Details, which the model does not see</h2>
                <JsonText value={call.details} what="details" />
              </>
            )}
            {call.branchId && <a href={address(call.branchId)}>The sub-agent’s own page</a>}
          </div>
        )}
      </details>
      {hasMore && (
        <div class="call-more">
          {reason && (
            <div class={isBad ? "is-bad" : "soft"}>
              <Folded text={reason} what="reason" />
            </div>
          )}
          {hasFailed && (
            <div class="is-bad">
              <Parts parts={words} what="failure" />
            </div>
          )}
          {difference && <Difference difference={difference} />}
          <Parts parts={pictures} what="result" />
          {call.progress && (
            <div class="call-live">
              <Folded text={call.progress} what="progress" isCode />
            </div>
          )}
          {response !== null && <Folded text={response} what="reply" />}
        </div>
      )}
      {call.branch && <Branch branch={call.branch} version={call.branch.version} session={call.branchId || session} />}
    </div>
  );
}

/** What a sub-agent does: its last words in one line, and when it is unfolded a conversation in the conversation. */
function Branch({ branch, session }: Versioned & { branch: Conversation; session: string }) {
  const isOpen = useSignal(false);
  const last = branch.items.findLast((item) => item.kind === "answer");
  const words = last?.kind === "answer" ? last.text.slice(-LIVE_CHARS).replace(/\s+/g, " ") : "";
  return (
    <details class="branch" open={isOpen.value} onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary>
        {branch.items.length === 1 ? "1 item" : `${branch.items.length} items`}
        {words && (
          <span class="cut">
            <Plain text={words} isCut />
          </span>
        )}
      </summary>
      {isOpen.value && (
        <ol class="conversation">
          {branch.items.slice(-BRANCH_ITEMS).map((item) => (
            <ConversationItem
              key={item.number}
              item={item}
              version={item.version}
              session={session}
              isMeant={false}
              promptActions={null}
            />
          ))}
        </ol>
      )}
    </details>
  );
}

/** How many of the last characters of a sub-agent stand in its line, which does not grow while it writes. */
const LIVE_CHARS = 160;

/** How many of the last items of a sub-agent are shown; its own page has all. */
const BRANCH_ITEMS = 50;

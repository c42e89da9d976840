/** What a conversation consists of, one component each; each is drawn again only when it has changed. */
import { useSignal } from "@preact/signals";
import { Component, type ComponentChildren } from "preact";
import type { Part } from "../host/interface";
import type { Answer, Call, Conversation, Item, Said } from "../store/conversation";
import { address } from "../route";
import { Folded } from "./folded";
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
        <a class="item-at" href={address(session, "event", item.seq)}>
          <Moment at={item.at} />
        </a>
        <Body item={item} version={version} session={session} />
        {item.kind === "prompt" && promptActions?.(item)}
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
    <div class="said">
      <h2>
        <Plain text={who} />
        {said.kind === "steering" && ` steers (${said.status})`}
      </h2>
      <Folded text={said.text} what={said.kind} />
      <Parts parts={said.attachments} what={said.kind} />
    </div>
  );
}

function AnswerBody({ answer }: Versioned & { answer: Answer }) {
  const { text, thinking, isLive, hasGap } = answer;
  return (
    <div class="answer" aria-busy={isLive}>
      {thinking && (
        <details>
          <summary>Thinking{isLive && !text ? " …" : ""}</summary>
          <Folded text={thinking} what="thinking" />
        </details>
      )}
      {hasGap && <p class="hint">Pieces of this answer were missed; the whole follows.</p>}
      {text.length > MOST ? <Folded text={text} what="answer" /> : <Markdown text={text} />}
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
      return <Folded text={part.text} what={what} />;
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

function CallBody({ call, session }: Versioned & { call: Call; session: string }) {
  const isOpen = useSignal(false);
  const pictures = call.content.filter((part) => part.$ === "Image");
  const words = call.content.filter((part) => part.$ !== "Image");
  const took = call.since !== null && call.until !== null ? duration(call.until - call.since) : null;
  return (
    <div class="call" data-state={call.state}>
      <details open={isOpen.value} onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
        <summary>
          <span class="call-name">
            <Plain text={call.name || "a call"} />
          </span>{" "}
          <span class="call-state">{call.state}</span>
          {call.state === "running" && call.since !== null && (
            <>
              {" "}
              for <Since at={call.since} />
            </>
          )}
          {took !== null && ` in ${took}`}
        </summary>
        {isOpen.value && (
          <>
            {call.args && <JsonText value={call.args} what="arguments" />}
            {words.length > 0 && <h3>Result</h3>}
            <Parts parts={words} what="result" />
            {call.details && (
              <>
                <h3>Details, which the model does not see</h3>
                <JsonText value={call.details} what="details" />
              </>
            )}
            {call.branchId && <a href={address(call.branchId)}>The sub-agent’s own page</a>}
          </>
        )}
      </details>
      <Parts parts={pictures} what="result" />
      {call.reason && <Folded text={call.reason} what="reason" />}
      {call.progress && <Folded text={call.progress} what="progress" />}
      {call.state === "held" && (
        <p>
          It waits for a person: <a href={address(null, "inbox")}>the inbox</a>
        </p>
      )}
      {call.question && <CallQuestion question={call.question} />}
      {call.branch && (
        <Branch
          branch={call.branch}
          version={call.branch.version}
          name={call.agent || call.name}
          task={call.task}
          session={call.branchId || session}
        />
      )}
    </div>
  );
}

function CallQuestion({ question }: { question: NonNullable<Call["question"]> }) {
  return (
    <div class="question">
      <Folded text={question.text} what="question" />
      {question.response === null ? (
        <p>
          It waits for an answer: <a href={address(null, "inbox")}>the inbox</a>
        </p>
      ) : (
        <Folded text={question.response} what="reply" />
      )}
    </div>
  );
}

/** What a sub-agent does: a conversation in the conversation. */
function Branch({ branch, name, task, session }: Versioned & { branch: Conversation; name: string; task: string; session: string }) {
  const isOpen = useSignal(false);
  return (
    <details class="branch" open={isOpen.value} onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary>
        Sub-agent <Plain text={name} />
        {task && (
          <>
            : <Plain text={task} />
          </>
        )}{" "}
        <span class="hint">
          {branch.status.phase}, {branch.items.length} items
        </span>
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

/** How many of the last items of a sub-agent are shown; its own page has all. */
const BRANCH_ITEMS = 50;

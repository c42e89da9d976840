/** One call or question that waits for a person, and the decision: the same card in the inbox and in the conversation. */
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { indented } from "../host/exact_json";
import { useHost } from "../host/host_context";
import { Refused } from "../host/socket";
import type { View } from "../host/interface";
import { address } from "../route";
import { useAnswer } from "../store/answer";
import { callTitle, proposesChange, reasonOf } from "../store/call_words";
import { act, ActionButton, type Telling } from "./action";
import { CallArguments } from "./call_arguments";
import { PAUSE } from "./decision_keys";
import { Difference } from "./diff";
import { Folded } from "./folded";
import { Icon } from "./icon";
import { Since, Until } from "./moment";
import { escaped, Plain } from "./plain";
import { Ticked } from "./ticked";

export type Held = View<"HeldView">;
type Change = View<"ChangeView">;

const CHANGED = "The file has changed since it was shown: look at it again.";

export interface HeldProps {
  readonly held: Held;
  /** Whether it is the one that letters decide about. */
  readonly isChosen: boolean;
  /** Whether a person has chosen it, so that it need not be read before a click may approve it. */
  readonly isAsked: boolean;
  readonly telling: Signal<Telling>;
  /** Called after a decision that the host has taken. */
  readonly decided: (decision: Decision) => void;
}

export type Decision = "approved" | "edited" | "rejected" | "answered";

/** What the card asks for at the moment. */
type Mode = "look" | "edit" | "reject" | "always";

/** Returns the name of what waits, which no other has. */
export function nameOf({ session, id }: Held): string {
  return `${session}/${id}`;
}

export function HeldCall(props: HeldProps) {
  const { held, isChosen } = props;
  const isQuestion = held.kind === "question";
  const change = useFileChange(held);
  const isUnread = useUnread(!props.isAsked);
  const card = useRef<HTMLElement>(null);
  const content = JSON.stringify([held.digest, change.value]);
  useLayoutEffect(() => {
    if (card.current) card.current.dataset["changed"] = String(performance.now());
  }, [content]);
  return (
    <section
      ref={card}
      class="held"
      data-chosen={isChosen || undefined}
      tabIndex={-1}
      aria-label={isQuestion ? "A question for you" : `Waits for you: ${held.tool}`}
    >
      <header>
        <Icon name={isQuestion ? "question" : "person"} />
        <span>Waits for you</span>
        <span>
          {held.since > 0 && (
            <>
              for <Since at={held.since} /> ·{" "}
            </>
          )}
          {held.expires_at === null ? (
            "no deadline"
          ) : (
            <>
              expires <Until at={held.expires_at} />
            </>
          )}
        </span>
      </header>
      {held.kind === "result" ? (
        <Elsewhere held={held} />
      ) : isQuestion ? (
        <Question {...props} isUnread={isUnread} />
      ) : (
        <Approval {...props} isUnread={isUnread} change={change} />
      )}
    </section>
  );
}

/** A call that a program makes: nothing is decided about it here. */
function Elsewhere({ held }: { held: Held }) {
  return (
    <div class="held-body">
      <h2 class="held-what">
        <Plain text={held.tool} /> is made elsewhere
      </h2>
      <p class="soft small">A program gives its result. Until then the turn waits.</p>
    </div>
  );
}

/** Whether it is shown for less than half a second, so that no click can be meant for it. */
function useUnread(mustBeRead: boolean): boolean {
  const isUnread = useSignal(mustBeRead);
  useEffect(() => {
    const timer = setTimeout(() => (isUnread.value = false), PAUSE);
    return () => clearTimeout(timer);
  }, []);
  return isUnread.value;
}

/** Returns the name of the plugin that holds a call; empty: it is of a sub-agent, or the key may not see it. */
function useHolder(held: Held): string {
  const isOwn = held.path.length === 0 && held.kind !== "question";
  const account = useAnswer("why", held.session, { about: isOwn ? held.call_id : "end" }).value.value;
  const steps = account?.subject === held.call_id ? account.entries.flatMap(({ plugins }) => plugins) : [];
  return steps.findLast(({ decided, rule }) => decided && rule === "hold")?.plugin ?? "";
}

/** Why it waits, for whom, and whose call it is, in one line. */
function Reason({ held }: { held: Held }) {
  const reason = held.kind === "question" ? "" : reasonOf(held);
  const holder = useHolder(held);
  return (
    <p class="soft small">
      {held.kind === "question" ? (
        "The model goes on with what you say, word for word."
      ) : (
        <>
          <code>
            <Plain text={held.tool} />
          </code>{" "}
          is held by <strong class="strong">{holder ? <Plain text={holder} /> : "a plugin"}</strong>
          {reason && (
            <>
              : <Ticked text={reason} />
            </>
          )}
          .
        </>
      )}
      {held.asked_by.length > 0 && (
        <>
          {" "}
          The turn is asked for by <Plain text={held.asked_by.join(", ")} />.
        </>
      )}
      {held.path.length > 0 ? (
        <>
          {" "}
          It is of a sub-agent: <Plain text={held.path.join(" / ")} />.
        </>
      ) : (
        <>
          {" "}
          <a href={address(held.session, "why", held.call_id)}>Why</a>
        </>
      )}
    </p>
  );
}

/** Asks what a call changes in a file that is there; null if the host does not tell. */
async function changeOf(host: ReturnType<typeof useHost>, held: Held): Promise<Change | null> {
  if (!proposesChange(held.tool, held.args.json)) return null;
  try {
    return await host.call("change", { session: held.session, query: { approval: held.id } });
  } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
}

/** What a call changes in a file; undefined while the host is asked. */
function useFileChange(held: Held): Signal<Change | null | undefined> {
  const host = useHost();
  const change = useSignal<Change | null | undefined>(proposesChange(held.tool, held.args.json) ? undefined : null);
  useEffect(() => {
    void changeOf(host, held).then((found) => (change.value = found), () => (change.value = null));
  }, [held.digest]);
  return change;
}

function ProposedChange({ change: { path, old, unseen, difference } }: { change: Change }) {
  return (
    <>
      {unseen !== null && (
        <p class="is-bad">
          <Plain text={unseen} />
        </p>
      )}
      {difference !== null && (
        <div>
          <h3>
            What it changes
            {path !== null && (
              <>
                {" "}
                in <Plain text={path} />
                {difference.lines === 0 && ", which is new or empty"}
                {old !== "" && difference.added === 0 && difference.removed === difference.lines && ", of which nothing is left"}
              </>
            )}
          </h3>
          <Difference difference={difference} hasNumbers={path !== null} />
        </div>
      )}
    </>
  );
}

interface ApprovalProps extends HeldProps {
  readonly isUnread: boolean;
  readonly change: Signal<Change | null | undefined>;
}

function Approval({ held, isUnread, change, telling, decided }: ApprovalProps) {
  const host = useHost();
  const mode = useSignal<Mode>("look");
  const box = useRef<HTMLDivElement>(null);
  const leave = () => {
    mode.value = "look";
    box.current?.closest<HTMLElement>(".held")?.focus();
  };
  const mustWait = isUnread || change.value === undefined;
  const decide = async (done: string, more: { always?: boolean; args?: { json: string } }) => {
    const body = { approval: held.id, digest: held.digest, ...more };
    const send = async () => {
      const now = await changeOf(host, held);
      if (!more.args && JSON.stringify(now) !== JSON.stringify(change.value)) {
        change.value = now;
        throw new Error(CHANGED);
      }
      return host.call("approve", { session: held.session, body });
    };
    if (await act(telling, `${done}: ${held.tool}`, send)) decided(more.args ? "edited" : "approved");
  };
  const reject = async (reason: string) => {
    const body = { approval: held.id, digest: held.digest, reason: reason || null, auto_resume: true };
    if (await act(telling, `Rejected: ${held.tool}`, () => host.call("reject", { session: held.session, body }))) decided("rejected");
  };
  return (
    <div ref={box} onKeyDown={(event) => mode.value !== "look" && leavesBy(event, leave)}>
      <div class="held-body">
        <h2 class="held-what">
          <Plain text={callTitle(held)} />
        </h2>
        <CallArguments args={held.args} />
        {change.value && <ProposedChange change={change.value} />}
        <Reason held={held} />
      </div>
      {mode.value === "look" && (
        <div class="held-do" role="group" aria-label="Decide">
          <ActionButton kind="main" shortcut="a" disabled={mustWait} act={() => decide("Approved", {})}>
            <Icon name="check" />
            Approve <kbd aria-hidden="true">A</kbd>
          </ActionButton>
          <ModeButton mode={mode} to="edit" shortcut="e">
            <Icon name="pencil" />
            Edit <kbd aria-hidden="true">E</kbd>
          </ModeButton>
          <ModeButton mode={mode} to="reject" shortcut="r">
            <Icon name="cross" />
            Reject… <kbd aria-hidden="true">R</kbd>
          </ModeButton>
          {held.family !== null && (
            <ModeButton mode={mode} to="always" shortcut="l" kind="bare away" disabled={mustWait}>
              Always… <kbd aria-hidden="true">L</kbd>
            </ModeButton>
          )}
        </div>
      )}
      {mode.value === "edit" && <Edit held={held} approve={(json) => decide("Approved as edited", { args: { json } })} leave={leave} />}
      {mode.value === "reject" && <Reject reject={reject} isUnread={isUnread} leave={leave} />}
      {mode.value === "always" && held.family !== null && (
        <Always family={held.family} approve={() => decide("Approved for always", { always: true })} leave={leave} />
      )}
    </div>
  );
}

/** Leaves what is asked for by Escape, and says nothing to what is around. */
function leavesBy(event: KeyboardEvent, leave: () => void): void {
  if (event.key !== "Escape") return;
  event.preventDefault();
  event.stopPropagation();
  leave();
}

function ModeButton(props: {
  readonly mode: Signal<Mode>;
  readonly to: Mode;
  readonly shortcut: string;
  readonly kind?: string;
  readonly disabled?: boolean;
  readonly children: ComponentChildren;
}) {
  const { mode, to, shortcut, kind, disabled, children } = props;
  return (
    <button type="button" class={kind} aria-keyshortcuts={shortcut} disabled={disabled} onClick={() => (mode.value = to)}>
      {children}
    </button>
  );
}

function Edit({ held, approve, leave }: { held: Held; approve: (json: string) => Promise<void>; leave: () => void }) {
  const text = useSignal(escaped(indented(held.args.json)));
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const problem = argumentsProblem(text.value);
  return (
    <div class="held-do">
      <label>
        The arguments, as they are to run
        <textarea
          ref={field}
          class="code"
          rows={Math.min(14, text.value.split("\n").length)}
          spellcheck={false}
          value={text.value}
          aria-invalid={problem !== ""}
          onInput={(event) => (text.value = event.currentTarget.value)}
        />
      </label>
      <p role="status" class={problem ? "is-bad" : ""}>
        {problem}
      </p>
      <ActionButton kind="main" disabled={problem !== ""} act={() => approve(text.value)}>
        Approve as edited
      </ActionButton>
      <button type="button" onClick={leave}>
        Leave them as they are
      </button>
    </div>
  );
}

function argumentsProblem(text: string): string {
  try {
    const found = JSON.parse(text) as unknown;
    return found !== null && typeof found === "object" && !Array.isArray(found) ? "" : "Arguments are a JSON object.";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

interface RejectProps {
  readonly reject: (reason: string) => Promise<void>;
  readonly isUnread: boolean;
  readonly leave: () => void;
}

function Reject({ reject, isUnread, leave }: RejectProps) {
  const reason = useSignal("");
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  return (
    <form
      class="held-do"
      onSubmit={(event) => {
        event.preventDefault();
        void reject(reason.value);
      }}
    >
      <label>
        What should it do instead?
        <input
          ref={field}
          dir="auto"
          value={reason.value}
          placeholder="The model reads it; it may stay empty"
          onInput={(event) => (reason.value = event.currentTarget.value)}
        />
      </label>
      <p class="soft">The call is not made, and the model goes on.</p>
      <button class="danger" onClick={(event) => isUnread && isOfPointer(event) && event.preventDefault()}>
        Reject
      </button>
      <button type="button" class="bare" onClick={leave}>
        Cancel
      </button>
    </form>
  );
}

/** Asks once more, because later calls will not be asked about. */
function Always({ family, approve, leave }: { family: string; approve: () => Promise<void>; leave: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => box.current?.querySelector("button")?.focus(), []);
  return (
    <div class="held-do" ref={box} role="group" aria-label="Approve for always">
      <p>
        From now on this passes in this session, and nobody is asked:{" "}
        <code>
          <Plain text={family} />
        </code>
      </p>
      <ActionButton kind="main" asksAgain act={approve}>
        Approve always
      </ActionButton>
      <button type="button" class="bare" data-leave onClick={leave}>
        Cancel
      </button>
    </div>
  );
}

/** Whether a click is none of Enter in a field: the second one of a double click was meant for what was there before. */
function isOfPointer(event: MouseEvent): boolean {
  return event.detail > 0;
}

function Question({ held, isUnread, telling, decided }: HeldProps & { isUnread: boolean }) {
  const host = useHost();
  const answer = useSignal("");
  const respond = async (text: string) => {
    const body = { ref: held.id, answer: text };
    if (await act(telling, "Answered", () => host.call("respond", { session: held.session, body }))) decided("answered");
  };
  return (
    <>
      <div class="held-body">
        <h2 class="held-what">
          <Folded text={held.hint} what="question" />
        </h2>
        <Reason held={held} />
      </div>
      <form
        class="held-do"
        onSubmit={(event) => {
          event.preventDefault();
          void respond(answer.value);
        }}
      >
        {held.options.map((option) => (
          <ActionButton disabled={isUnread} act={() => respond(option)}>
            <Plain text={option} />
          </ActionButton>
        ))}
        <label>
          {held.options.length ? "Another answer" : "Your answer"}
          <input
            required
            dir="auto"
            value={answer.value}
            aria-keyshortcuts="r"
            onInput={(event) => (answer.value = event.currentTarget.value)}
          />
        </label>
        <button class={held.options.length ? "" : "main"} onClick={(event) => isUnread && isOfPointer(event) && event.preventDefault()}>
          Answer
        </button>
      </form>
    </>
  );
}

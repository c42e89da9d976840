/** One call or question that waits for a person: what is asked, by whom, with what exactly, and the decision. */
import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { indented } from "../host/exact_json";
import { useHost } from "../host/host_context";
import { Refused } from "../host/socket";
import type { View } from "../host/interface";
import { address } from "../route";
import { act, ActionButton, type Telling } from "./action";
import { Diff, FileDiff } from "./diff";
import { Folded } from "./folded";
import { JsonText } from "./json_text";
import { Moment, Since, Until } from "./moment";
import { escaped, Plain } from "./plain";

type Held = View<"HeldView">;
type Change = View<"ChangeView">;

/** The tools of which the host tells what a call changes in a file. */
const WRITERS: ReadonlySet<string> = new Set(["edit_file", "write_file"]);

const CHANGED = "The file has changed since it was shown: look at it again.";

interface DecisionProps {
  readonly held: Held;
  /** Whether nobody can have read it yet, so that no click approves it. */
  readonly isUnread: boolean;
  readonly telling: Signal<Telling>;
  /** Called after a decision that the host has taken. */
  readonly decided: () => void;
}

interface HeldProps extends DecisionProps {
  /** Title of its session, or the id if it has none. */
  readonly title: string;
}

export function HeldCall(props: HeldProps) {
  const { held, title } = props;
  const isQuestion = held.kind === "question";
  return (
    <section class="held" aria-label={isQuestion ? "The question" : `The call of ${held.tool}`}>
      <h2 class={isQuestion ? "asks" : undefined}>{isQuestion ? "A question" : <Plain text={held.tool} />}</h2>
      <Facts held={held} title={title} />
      {isQuestion ? <Question {...props} /> : <Approval {...props} />}
    </section>
  );
}

function Facts({ held, title }: { held: Held; title: string }) {
  return (
    <dl class="facts">
      <dt>Session</dt>
      <dd>
        <a href={address(held.session)}>
          <Plain text={title} />
        </a>{" "}
        {title !== held.session && (
          <span class="id">
            <Plain text={held.session} />
          </span>
        )}
      </dd>
      {held.path.length > 0 && (
        <>
          <dt>Of a sub-agent</dt>
          <dd>
            <Plain text={held.path.join(" / ")} />
          </dd>
        </>
      )}
      {held.asked_by.length > 0 && (
        <>
          <dt>Turn asked for by</dt>
          <dd>
            <Plain text={held.asked_by.join(", ")} />
          </dd>
        </>
      )}
      {held.since > 0 && (
        <>
          <dt>Waits since</dt>
          <dd>
            <Moment at={held.since} />, for <Since at={held.since} />
          </dd>
        </>
      )}
      <dt>Expires</dt>
      <dd>
        {held.expires_at === null ? (
          "never"
        ) : (
          <>
            <Until at={held.expires_at} />, and is then not made
          </>
        )}
      </dd>
      {held.path.length === 0 && (
        <>
          <dt>Why it waits</dt>
          <dd>
            <a href={address(held.session, "why", held.call_id)}>what its plugins said</a>
          </dd>
        </>
      )}
    </dl>
  );
}

/** Returns the texts before and after an edit that the arguments propose; null if they propose none. */
function proposedEdit(json: string): readonly [string, string] | null {
  const args = JSON.parse(json) as Record<string, unknown>;
  const { old_text: before, new_text: after } = args;
  return typeof before === "string" && typeof after === "string" ? [before, after] : null;
}

/** Asks what a call changes in a file that is there; null if the host does not tell. */
async function changeOf(host: ReturnType<typeof useHost>, held: Held): Promise<Change | null> {
  if (!WRITERS.has(held.tool)) return null;
  try {
    return await host.call("change", { session: held.session, query: { approval: held.id } });
  } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
}

function FileChange({ change }: { change: Change }) {
  if (change.unseen !== null) return <p class="bad"><Plain text={change.unseen} /></p>;
  if (change.path === null) return null;
  return (
    <>
      <h3>
        What it changes in <Plain text={change.path} />
      </h3>
      <FileDiff before={change.old} after={change.new} />
    </>
  );
}

function Approval(props: DecisionProps) {
  const { held, isUnread, telling, decided } = props;
  const host = useHost();
  const isEdited = useSignal(false);
  /** What it changes in a file; undefined while the host is asked. */
  const change = useSignal<Change | null | undefined>(undefined);
  useEffect(() => {
    void changeOf(host, held).then((found) => (change.value = found), () => (change.value = null));
  }, []);
  const edit = change.value?.path == null ? proposedEdit(held.args.json) : null;
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
    if (await act(telling, `${done}: ${held.tool}`, send)) decided();
  };
  return (
    <>
      {held.hint && <Folded text={held.hint} what="hint" />}
      {change.value && <FileChange change={change.value} />}
      {edit && (
        <>
          <h3>What it changes</h3>
          <Diff before={edit[0]} after={edit[1]} />
        </>
      )}
      {isEdited.value ? (
        <Edit held={held} approve={(json) => decide("Approved as edited", { args: { json } })} leave={() => (isEdited.value = false)} />
      ) : (
        <>
          <h3>Its arguments, exactly</h3>
          <JsonText value={held.args} what="arguments" />
          <div class="actions">
            <ActionButton kind="main-action" shortcut="a" disabled={mustWait} act={() => decide("Approved", {})}>
              Approve once
            </ActionButton>
            {held.family !== null && (
              <ActionButton shortcut="l" disabled={mustWait} act={() => decide("Approved for always", { always: true })}>
                Approve always
              </ActionButton>
            )}
            <button type="button" aria-keyshortcuts="e" onClick={() => (isEdited.value = true)}>
              Edit
            </button>
          </div>
          {held.family !== null && (
            <p>
              “Always” lets pass, from now on: <Plain text={held.family} />
            </p>
          )}
          <p class="hint">
            Approved, it is made with exactly these arguments. Rejected, it is not made, and the model goes on with your reason.
          </p>
          <Reject {...props} />
        </>
      )}
    </>
  );
}

function Edit({ held, approve, leave }: { held: Held; approve: (json: string) => Promise<void>; leave: () => void }) {
  const text = useSignal(escaped(indented(held.args.json)));
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const problem = argumentsProblem(text.value);
  return (
    <div class="edit">
      <label for="edited">Its arguments, as they are to run</label>
      <textarea
        id="edited"
        ref={field}
        class="code"
        rows={10}
        spellcheck={false}
        value={text.value}
        aria-invalid={problem !== ""}
        aria-describedby="edit-problem"
        onInput={(event) => (text.value = event.currentTarget.value)}
      />
      <p id="edit-problem" role="status">
        {problem}
      </p>
      <div class="actions">
        <ActionButton kind="main-action" disabled={problem !== ""} act={() => approve(text.value)}>
          Approve as edited
        </ActionButton>
        <button type="button" onClick={leave}>
          Leave them as they are
        </button>
      </div>
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

function Reject({ held, isUnread, telling, decided }: DecisionProps) {
  const host = useHost();
  const reason = useSignal("");
  const reject = async () => {
    const body = { approval: held.id, digest: held.digest, reason: reason.value || null, auto_resume: true };
    if (await act(telling, `Rejected: ${held.tool}`, () => host.call("reject", { session: held.session, body }))) decided();
  };
  return (
    <form
      class="reject"
      onSubmit={(event) => {
        event.preventDefault();
        void reject();
      }}
    >
      <label>
        Why not (the model reads it)
        <input
          value={reason.value}
          aria-keyshortcuts="r"
          onInput={(event) => (reason.value = event.currentTarget.value)}
        />
      </label>
      <button class="danger" onClick={(event) => isUnread && isOfPointer(event) && event.preventDefault()}>
        Reject
      </button>
    </form>
  );
}

/** Whether a click is none of Enter in a field: the second one of a double click was meant for what was there before. */
function isOfPointer(event: MouseEvent): boolean {
  return event.detail > 0;
}

function Question({ held, isUnread, telling, decided }: DecisionProps) {
  const host = useHost();
  const answer = useSignal("");
  const respond = async (text: string) => {
    const body = { ref: held.id, answer: text };
    if (await act(telling, "Answered", () => host.call("respond", { session: held.session, body }))) decided();
  };
  return (
    <>
      <Folded text={held.hint} what="question" />
      <p class="hint">The model goes on with what is said here, word for word.</p>
      <div class="actions">
        {held.options.map((option) => (
          <ActionButton disabled={isUnread} act={() => respond(option)}>
            <Plain text={option} />
          </ActionButton>
        ))}
      </div>
      <form
        class="reject"
        onSubmit={(event) => {
          event.preventDefault();
          void respond(answer.value);
        }}
      >
        <label>
          {held.options.length ? "Another answer" : "Your answer"}
          <input
            required
            value={answer.value}
            aria-keyshortcuts="r"
            onInput={(event) => (answer.value = event.currentTarget.value)}
          />
        </label>
        <button class="main-action" onClick={(event) => isUnread && isOfPointer(event) && event.preventDefault()}>
          Answer
        </button>
      </form>
    </>
  );
}

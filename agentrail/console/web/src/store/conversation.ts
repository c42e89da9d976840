/** The conversation of a session as it is drawn: the host folds its events, and tells what each of them changes. */
import type { Json } from "../host/exact_json";
import type { Change, Part, View } from "../host/interface";
import { endReason, noteOf, resolution } from "./note_words";

/** What is common to all that a conversation shows. */
interface Shown {
  /** Number of the item in its conversation. */
  readonly number: number;
  /** Number of the event that it began with; its address has it. */
  readonly seq: number;
  readonly at: number;
  /** Grows with each change, so that only what has changed is drawn again. */
  version: number;
}

export interface Said extends Shown {
  readonly kind: "prompt" | "steering";
  readonly ref: string;
  readonly text: string;
  /** Who said it; empty if nobody says so. */
  readonly by: string;
  /** Pictures and files that came with it, once the turn has ended. */
  attachments: Part[];
  /** What has become of a steering text: `queued`, `applied`, `dropped`, … */
  status: string;
}

export interface Answer extends Shown {
  readonly kind: "answer";
  thinking: string;
  text: string;
  /** Whether more of it comes. */
  isLive: boolean;
  /** Whether pieces of it were missed while it came. */
  hasGap: boolean;
}

/** What has become of a call; `abandoned`: it was cancelled, and still runs. */
export type CallState = View<"CallChangedView">["state"] | "abandoned";

export interface Call extends Shown {
  readonly kind: "call";
  readonly callId: string;
  readonly name: string;
  args: Json | null;
  state: CallState;
  progress: string;
  content: Part[];
  details: Json | null;
  /** Why it was blocked, held or killed. */
  reason: string;
  since: number | null;
  until: number | null;
  /** The sub-agent that it has started. */
  branch: Conversation | null;
  branchId: string;
  /** Name of the sub-agent and what it is to do; empty: there is none, or they are not known. */
  agent: string;
  task: string;
  question: { readonly ref: string; readonly text: string; response: string | null } | null;
}

export interface Note extends Shown {
  readonly kind: "note";
  text: string;
  readonly mood: "plain" | "bad" | "end";
  /** Id of a session that it is about; empty if it is about this one. */
  readonly about: string;
  /** Up to which record of that session its past is the past of this one; 0: it is not. */
  readonly upTo: number;
}

export type Item = Said | Answer | Call | Note;

/** What the state of the session is, as its events tell. */
export interface Status {
  /** What it does: `idle`, `running`, `streaming`, `executing_tools`, `ended`. */
  phase: string;
  model: string;
  turn: number;
  round: number;
  isTurnOpen: boolean;
  status: string;
  todos: View<"Todo">[];
  queue: { readonly ref: string; readonly text: string }[];
}

const NEW_CALL = {
  kind: "call",
  name: "",
  args: null,
  state: "asked",
  progress: "",
  content: [],
  details: null,
  reason: "",
  since: null,
  until: null,
  branch: null,
  branchId: "",
  agent: "",
  task: "",
  question: null,
} as const;

/** Makes a conversation of changes. */
export class Conversation {
  readonly items: Item[] = [];
  readonly status: Status = {
    phase: "idle",
    model: "",
    turn: 0,
    round: 0,
    isTurnOpen: false,
    status: "",
    todos: [],
    queue: [],
  };
  /** Changes whenever the conversation does. */
  version = 0;
  readonly #calls = new Map<string, Call>();
  readonly #said = new Map<string, Said>();
  /** The response under way. */
  #answer: Answer | null = null;
  /** The note of a handoff, until the other agent goes on: events that tell what it brings along belong to it. */
  #handoff: Note | null = null;
  #made = 0;
  #seq = 0;
  #at = 0;
  #by = "";

  /** Takes the next change, which event number *seq* tells. */
  apply(change: Change, seq: number, { at, by }: { readonly at: number; readonly by: string }): void {
    [this.#seq, this.#at, this.#by] = [seq, at, by];
    this.version += 1;
    if (this.#goesWithHandoff(change)) return;
    if (change.$ === "RequestStart" || change.$.startsWith("Agent")) this.#handoff = null;
    this.#applyStatus(change);
    this.#applyTalk(change);
    this.#applyCall(change);
    const [text, mood, about, upTo] = noteOf(change);
    if (text) this.#note(text, mood, about, upTo);
  }

  /** Notes that events are missing here. */
  gap(): void {
    this.version += 1;
    if (this.#answer) this.#touch(this.#answer, { hasGap: true });
  }

  #add<T extends Item>(item: Omit<T, keyof Shown>): T {
    this.#made += 1;
    const whole = { ...item, number: this.#made, seq: this.#seq, at: this.#at, version: 0 } as unknown as T;
    this.items.push(whole);
    return whole;
  }

  #touch<T extends Item>(item: T, change: Partial<T>): void {
    Object.assign(item, change);
    item.version += 1;
  }

  #note(text: string, mood: Note["mood"] = "plain", about = "", upTo = 0): Note {
    return this.#add<Note>({ kind: "note", text, mood, about, upTo });
  }

  /** Takes an event of a handoff: that it happens, and what the agent that goes on brings along. */
  #goesWithHandoff(event: Change): boolean {
    const note = this.#handoff;
    if (event.$ === "HandedOff") {
      this.#handoff = this.#note(`${event.from_} handed the conversation over to ${event.to}, which goes on.`);
    } else if (note && event.$ === "ModelSwitched") {
      this.status.model = event.to;
      this.#touch(note, { text: `${note.text} Its model: ${event.to}.` });
    } else if (note && event.$ === "ToolsUpdated" && !event.source) {
      if (event.attached.length) this.#touch(note, { text: `${note.text} Its tools: ${event.attached.join(", ")}.` });
    } else return false;
    return true;
  }

  /** What the session does, and what is shown beside its conversation. */
  #applyStatus(event: Change): void {
    const { status } = this;
    switch (event.$) {
      case "SessionStarted":
      case "ModelEffective":
        status.model = event.model;
        break;
      case "ModelSwitched":
        status.model = event.to;
        break;
      case "PromptQueued":
        status.queue = [...status.queue, { ref: event.ref, text: event.text }];
        break;
      case "PromptReceived":
      case "PromptDropped":
      case "PromptWithdrawn":
      case "PromptRejected":
        status.queue = status.queue.filter((prompt) => prompt.ref !== event.ref);
        break;
      case "AgentStart":
        Object.assign(status, { turn: status.turn + 1, round: 0, isTurnOpen: true, phase: "running" });
        break;
      case "AgentResumed":
        Object.assign(status, { isTurnOpen: true, phase: "running" });
        break;
      case "AgentEnd":
      case "AgentAbort":
        if (event.ref != null) Object.assign(status, { isTurnOpen: false, phase: "idle", round: 0, status: "" });
        break;
      case "RequestStart":
        Object.assign(status, { model: event.model, phase: "running" });
        if (event.attempt === 1) status.round += 1;
        break;
      case "MessageStart":
      case "ThinkingStart":
        status.phase = "streaming";
        break;
      case "ResponseEnded":
        status.phase = "running";
        break;
      case "CallChanged":
        status.phase = "executing_tools";
        break;
      case "SessionEnded":
        status.phase = "ended";
        break;
      case "StatusUpdate":
        status.status = event.text;
        break;
      case "TodoChange":
        status.todos = [...event.todos];
        break;
      default:
    }
  }

  #say(kind: Said["kind"], ref: string, text: string, status: string): void {
    this.#said.set(ref, this.#add<Said>({ kind, ref, text, by: this.#by, attachments: [], status }));
  }

  /** What people and the model say. */
  #applyTalk(event: Change): void {
    switch (event.$) {
      case "PromptReceived":
        this.#say("prompt", event.ref, event.text, "");
        break;
      case "SteeringReceived": {
        const earlier = this.#said.get(event.ref);
        if (earlier) this.#touch(earlier, { status: event.status });
        else this.#say("steering", event.ref, event.text, event.status);
        break;
      }
      case "SteeringRead":
        for (const ref of event.refs) {
          const said = this.#said.get(ref);
          if (said) this.#touch(said, { status: "applied" });
        }
        break;
      case "AgentEnd": {
        const said = this.#said.get(event.ref);
        const parts = event.messages.find((message) => message.$ === "UserMessage")?.parts ?? [];
        const attachments = parts.filter((part) => part.$ === "Image" || part.$ === "File");
        if (said && attachments.length) this.#touch(said, { attachments });
        break;
      }
      case "ThinkingDelta":
        this.#touch(this.#live(), { thinking: this.#live().thinking + event.delta });
        break;
      case "MessageDelta":
        this.#touch(this.#live(), { text: this.#live().text + event.delta });
        break;
      case "ResponseEnded":
        if (this.#answer || event.text || event.thoughts) {
          this.#touch(this.#live(), { text: event.text, thinking: event.thoughts, isLive: false, hasGap: false });
        }
        this.#answer = null;
        break;
      case "CutOff":
      case "SessionEnded":
        if (this.#answer) this.#touch(this.#answer, { isLive: false, hasGap: event.$ === "CutOff" && !event.is_heard });
        this.#answer = null;
        break;
      case "Voided":
        if (this.#answer) this.items.splice(this.items.indexOf(this.#answer), 1);
        this.#answer = null;
        break;
      default:
    }
  }

  #live(): Answer {
    this.#answer ??= this.#add<Answer>({ kind: "answer", thinking: "", text: "", isLive: true, hasGap: false });
    return this.#answer;
  }

  /** Changes a call, which is added if it is a new one. */
  #changeCall(callId: string, change: Partial<Call>): Call {
    let call = this.#calls.get(callId);
    if (!call) this.#calls.set(callId, (call = this.#add<Call>({ ...NEW_CALL, content: [], callId })));
    this.#touch(call, change);
    return call;
  }

  #endCall({ call_id, state, content, cause }: View<"CallEndedView">): void {
    const call = this.#changeCall(call_id, {});
    const result = cause?.$ === "ToolExecutionEnd" ? cause : null;
    if (call.state === "abandoned" && !result) return; // what its turn has in place of a result says less
    this.#touch(call, { state, progress: "", until: (!result && call.until) || this.#at });
    if (content) call.content = content;
    if (result) call.details = result.details ?? null;
    else if (cause) call.reason = endReason(cause);
  }

  /** Calls of tools, their approvals and sub-agents. */
  #applyCall(event: Change): void {
    switch (event.$) {
      case "CallChanged": {
        const { call_id, name, args, state, hint } = event;
        const call = this.#changeCall(call_id, { name, state });
        if (args) call.args = args;
        if (state === "held") call.reason = hint;
        if (state === "running") call.since = this.#at;
        break;
      }
      case "CallEnded":
        this.#endCall(event);
        break;
      case "ToolExecutionUpdate":
        this.#changeCall(event.call_id, { progress: event.update });
        break;
      case "ToolAbandoned":
        this.#changeCall(event.call_id, { state: "abandoned", reason: "It was cancelled and still runs." });
        break;
      case "ApprovalResolved": {
        const call = this.#calls.get(event.call_id);
        if (call) this.#touch(call, { state: call.state === "held" ? "asked" : call.state, reason: resolution(event) });
        break;
      }
      case "AskUser":
        if (event.path?.length) break; // of a call of a sub-agent
        this.#changeCall(event.call_id, { question: { ref: event.ref, text: event.question, response: null } });
        break;
      case "UserResponded":
        for (const call of this.#calls.values()) {
          if (call.question?.ref === event.ref) this.#touch(call, { question: { ...call.question, response: event.response } });
        }
        break;
      case "SubagentStart": {
        const { call_id, child, agent = "", description = "" } = event;
        this.#changeCall(call_id, { branch: new Conversation(), branchId: child, agent, task: description });
        break;
      }
      case "OfSubagent": {
        const call = this.#changeCall(event.call_id, {});
        call.branch ??= new Conversation();
        call.branch.apply(event.change, this.#seq, { at: this.#at, by: "" });
        break;
      }
      default:
    }
  }
}

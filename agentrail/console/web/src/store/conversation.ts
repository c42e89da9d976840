/** The conversation of a session, folded from its events: it has no state of its own. */
import type { Json } from "../host/exact_json";
import type { Part, SessionEvent, View } from "../host/interface";

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

export type CallState =
  | "asked"
  | "held"
  | "running"
  | "done"
  | "failed"
  | "blocked"
  | "killed"
  | "abandoned"
  | "in doubt"
  | "skipped"
  | "unknown tool";

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
  title: string;
  status: string;
  todos: View<"Todo">[];
  queue: { readonly ref: string; readonly text: string }[];
}

const BAD = "bad";
const OPEN: ReadonlySet<CallState> = new Set(["asked", "held", "running"]);

/** Makes a conversation of events. */
export class Conversation {
  readonly items: Item[] = [];
  readonly status: Status = {
    phase: "idle",
    model: "",
    turn: 0,
    round: 0,
    isTurnOpen: false,
    title: "",
    status: "",
    todos: [],
    queue: [],
  };
  /** Changes whenever the conversation does. */
  version = 0;
  readonly #calls = new Map<string, Call>();
  readonly #said = new Map<string, Said>();
  /** Paths of the sub-agents whose calls wait for people, by ids of approvals: the session tells of them as its own. */
  readonly #heldIn = new Map<string, readonly string[]>();
  #answer: Answer | null = null;
  /** The note of a handoff, until the other agent goes on: events that tell what it brings along belong to it. */
  #handoff: Note | null = null;
  #made = 0;
  #seq = 0;
  #at = 0;
  #by = "";

  /** Takes the next event. */
  apply(event: SessionEvent, at: { readonly seq: number; readonly at: number; readonly by?: string }): void {
    [this.#seq, this.#at, this.#by] = [at.seq, at.at, at.by ?? ""];
    this.version += 1;
    if (this.#goesWithHandoff(event)) return;
    if (event.$ === "RequestStart" || event.$.startsWith("Agent")) this.#handoff = null;
    this.#applyTalk(event) || this.#applyModel(event) || this.#applyCall(event) || this.#applyLife(event);
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

  /** Takes an event that only tells what an agent brings along to which the conversation was handed over. */
  #goesWithHandoff(event: SessionEvent): boolean {
    const note = this.#handoff;
    if (!note) return false;
    if (event.$ === "ModelSwitched") {
      this.status.model = event.to;
      this.#touch(note, { text: `${note.text} Its model: ${event.to}.` });
    } else if (event.$ === "ToolsUpdated" && !event.source) {
      if (event.attached.length) this.#touch(note, { text: `${note.text} Its tools: ${event.attached.join(", ")}.` });
    } else return false;
    return true;
  }

  #say(kind: Said["kind"], ref: string, text: string, status: string): void {
    this.#said.set(ref, this.#add<Said>({ kind, ref, text, by: this.#by, attachments: [], status }));
  }

  #leaveQueue(ref: string): void {
    this.status.queue = this.status.queue.filter((prompt) => prompt.ref !== ref);
  }

  /** What people say, and turns. */
  #applyTalk(event: SessionEvent): boolean {
    const { status } = this;
    switch (event.$) {
      case "PromptReceived":
        this.#leaveQueue(event.ref);
        this.#say("prompt", event.ref, event.text, "");
        break;
      case "PromptQueued":
        status.queue = [...status.queue, { ref: event.ref, text: event.text }];
        break;
      case "PromptDropped":
      case "PromptWithdrawn":
        this.#leaveQueue(event.ref);
        this.#note(`${event.$ === "PromptDropped" ? "Dropped" : "Withdrawn"} from the queue: ${event.text}`);
        break;
      case "PromptRejected":
        this.#leaveQueue(event.ref);
        this.#note(`The prompt was refused${event.plugin ? ` by ${event.plugin}` : ""}: ${event.reason}`, BAD);
        break;
      case "SteeringReceived": {
        const earlier = this.#said.get(event.ref);
        if (earlier) this.#touch(earlier, { status: event.status });
        else this.#say("steering", event.ref, event.text, event.status);
        break;
      }
      case "SteeringApplied":
        for (const ref of event.refs) {
          const said = this.#said.get(ref);
          if (said) this.#touch(said, { status: "applied" });
        }
        break;
      case "AgentStart":
        status.turn += 1;
        status.round = 0;
        status.isTurnOpen = true;
        status.phase = "running";
        break;
      case "AgentEnd":
        this.#endTurn(event.stop_reason === "end" ? "The turn is over." : `The turn is over: ${event.stop_reason}.`);
        this.#attach(event.ref, event.messages);
        for (const message of event.messages) if (message.$ === "ToolMessage") this.#answerCall(message);
        break;
      case "AgentAbort":
        if (event.ref == null) break;
        this.#endTurn(`The turn was aborted (${event.kind})${event.reason ? `: ${event.reason}` : "."}`, BAD);
        break;
      case "AgentResumed":
        this.#finishAnswer();
        status.isTurnOpen = true;
        status.phase = "running";
        break;
      default:
        return false;
    }
    return true;
  }

  #endTurn(text: string, mood: Note["mood"] = "end"): void {
    this.#finishAnswer();
    Object.assign(this.status, { isTurnOpen: false, phase: "idle", round: 0, status: "" });
    this.#note(text, mood);
  }

  #attach(ref: string, messages: readonly { readonly $: string; readonly parts?: readonly Part[] }[]): void {
    const said = this.#said.get(ref);
    const parts = messages.find((message) => message.$ === "UserMessage")?.parts ?? [];
    const attachments = parts.filter((part) => part.$ === "Image" || part.$ === "File");
    if (said && attachments.length) this.#touch(said, { attachments });
  }

  #finishAnswer(): void {
    if (this.#answer) this.#touch(this.#answer, { isLive: false });
    this.#answer = null;
  }

  #live(): Answer {
    this.#answer ??= this.#add<Answer>({ kind: "answer", thinking: "", text: "", isLive: true, hasGap: false });
    return this.#answer;
  }

  /** Requests to the model and its responses. */
  #applyModel(event: SessionEvent): boolean {
    const { status } = this;
    switch (event.$) {
      case "RequestStart":
        this.#dropAnswer(); // the process that has asked before has ended
        status.model = event.model;
        status.phase = "running";
        if (event.attempt === 1) status.round += 1;
        break;
      case "MessageStart":
      case "ThinkingStart":
        status.phase = "streaming";
        break;
      case "ThinkingDelta":
        this.#touch(this.#live(), { thinking: this.#live().thinking + event.delta });
        break;
      case "MessageDelta":
        this.#touch(this.#live(), { text: this.#live().text + event.delta });
        break;
      case "StatusUpdate":
        status.status = event.text;
        break;
      case "ResponseComplete":
        this.#complete(event.message);
        break;
      case "Retry":
        this.#dropAnswer();
        this.#note(`Attempt ${event.attempt} failed and is made again: ${event.reason}`, BAD);
        break;
      case "StreamError":
        this.#note(`The request failed: ${event.error}: ${event.message}`, BAD);
        break;
      case "StreamStalled":
        this.#note(`Nothing came from the model for ${event.elapsed_s} s.`, BAD);
        break;
      case "ContextOverflow":
        this.#note(`The conversation is too long for the model: ${event.message}`, BAD);
        break;
      case "AnswerRejected":
        this.#note(`The answer does not fit what was asked for: ${event.reason}`, BAD);
        break;
      case "ModelSwitched":
        status.model = event.to;
        this.#note(`Model: ${event.from_} → ${event.to}${event.reason ? `: ${event.reason}` : ""}`);
        break;
      case "HandedOff":
        this.#handoff = this.#note(`${event.from_} handed the conversation over to ${event.to}, which goes on.`);
        break;
      case "ModelOptionsChanged":
        this.#note(`Other options for ${event.model}.`);
        break;
      case "ModelEffective":
        status.model = event.model;
        break;
      default:
        return false;
    }
    return true;
  }

  #dropAnswer(): void {
    if (this.#answer) this.items.splice(this.items.indexOf(this.#answer), 1);
    this.#answer = null;
  }

  #complete(message: View<"AssistantMessage">): void {
    const parts = message.parts ?? [];
    const textOf = (kind: string) => parts.map((part) => (part.$ === kind ? part.text : "")).join("");
    const [text, thinking] = [textOf("Text"), textOf("Thinking")];
    if (this.#answer || text || thinking) {
      this.#touch(this.#live(), { text, thinking, isLive: false, hasGap: false });
    }
    this.#answer = null;
    for (const call of message.calls ?? []) this.#addCall(call.call_id, call.name, call.args ?? { json: "{}" });
    this.status.phase = message.calls?.length ? "executing_tools" : "running";
  }

  #addCall(callId: string, name: string, args: Json | null): Call {
    const call = this.#add<Call>({
      kind: "call",
      callId,
      name,
      args,
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
    });
    this.#calls.set(callId, call);
    return call;
  }

  #changeCall(callId: string, name: string, change: Partial<Call>): Call {
    const call = this.#calls.get(callId) ?? this.#addCall(callId, name, null);
    this.#touch(call, change);
    return call;
  }

  /** Takes the result of a call that no event has ended, such as one whose arguments do not fit. */
  #answerCall(message: View<"ToolMessage">): void {
    const call = this.#calls.get(message.call_id);
    if (!call || !OPEN.has(call.state)) return;
    this.#touch(call, { state: message.is_error ? "failed" : "done", content: [...message.parts] });
  }

  /** The conversation of the sub-agent at *path*: the ids of a session and its call, those of the outermost first. */
  #within([, callId, ...inner]: readonly string[]): Conversation {
    const call = this.#changeCall(callId ?? "", "", {});
    call.branch ??= new Conversation();
    return inner.length ? call.branch.#within(inner) : call.branch;
  }

  /** Calls of tools, their approvals and sub-agents. */
  #applyCall(event: SessionEvent): boolean {
    switch (event.$) {
      case "ToolExecutionStart":
        this.status.phase = "executing_tools";
        this.#changeCall(event.call_id, event.name, {
          state: "running",
          since: this.#at,
          args: event.args ?? { json: "{}" },
        });
        break;
      case "ToolExecutionUpdate": {
        const call = this.#calls.get(event.call_id);
        if (call) this.#touch(call, { progress: event.update });
        break;
      }
      case "ToolExecutionEnd":
        this.#changeCall(event.call_id, event.name, {
          state: event.is_error ? "failed" : "done",
          content: [...event.content],
          details: event.details ?? null,
          until: this.#at,
          progress: "",
        });
        break;
      case "ToolBlocked":
        this.#changeCall(event.call_id, event.name, { state: "blocked", reason: `${event.plugin}: ${event.reason}` });
        break;
      case "ToolKilled":
        this.#changeCall(event.call_id, event.name, { state: "killed", reason: event.reason, until: this.#at });
        break;
      case "ToolAbandoned":
        this.#changeCall(event.call_id, event.name, { state: "abandoned", reason: "It was cancelled and still runs." });
        break;
      case "ToolUnknown":
        this.#changeCall(event.call_id, event.name, {
          state: "in doubt",
          reason: "It was interrupted, and may have taken effect.",
        });
        break;
      case "ToolSkippedForSteering":
        this.#changeCall(event.call_id, event.name, { state: "skipped", reason: "A steering text came." });
        break;
      case "ToolCallUnknown":
        this.#changeCall(event.call_id, event.name, { state: "unknown tool" });
        break;
      case "ApprovalRequired":
        if (event.path?.length) {
          this.#heldIn.set(event.approval_id, event.path);
          this.#within(event.path).apply({ ...event, path: [] }, { seq: this.#seq, at: this.#at });
        } else this.#changeCall(event.call_id, event.tool, { state: "held", reason: event.hint, args: event.args });
        break;
      case "ApprovalResolved": {
        const path = this.#heldIn.get(event.approval_id);
        this.#heldIn.delete(event.approval_id);
        const call = path ? undefined : this.#calls.get(event.call_id);
        if (path) this.#within(path).apply(event, { seq: this.#seq, at: this.#at });
        else if (call) this.#touch(call, { state: call.state === "held" ? "asked" : call.state, reason: resolution(event) });
        break;
      }
      case "AskUser":
        if (event.path?.length) break;
        this.#changeCall(event.call_id, "", { question: { ref: event.ref, text: event.question, response: null } });
        break;
      case "UserResponded":
        for (const call of this.#calls.values()) {
          if (call.question?.ref === event.ref) this.#touch(call, { question: { ...call.question, response: event.response } });
        }
        break;
      case "SubagentStart":
        this.#changeCall(event.call_id, event.agent ?? "", {
          branch: new Conversation(),
          branchId: event.child,
          agent: event.agent ?? "",
          task: event.description ?? "",
        });
        break;
      case "SubAgentEvent": {
        const call = this.#changeCall(event.call_id, "", {});
        call.branch ??= new Conversation();
        call.branch.apply(event.event as SessionEvent, { seq: this.#seq, at: this.#at });
        break;
      }
      default:
        return false;
    }
    return true;
  }

  /** The life of the session, its context, its plugins. */
  #applyLife(event: SessionEvent): void {
    const { status } = this;
    switch (event.$) {
      case "SessionStarted":
        status.model = event.model;
        break;
      case "SessionEnded":
        this.#finishAnswer();
        status.phase = "ended";
        this.#note(`The session has ended: ${event.reason}`, "end");
        break;
      case "SessionRestarted":
        this.#note(`The session crashed and was started again: ${event.cause}`, BAD);
        break;
      case "SessionQuarantined":
      case "InputQuarantined":
        this.#note(`Set aside, because it crashed too often: ${event.cause}`, BAD);
        break;
      case "SessionForked":
        this.#note(`A fork, with the past up to record ${event.at} of the session`, "plain", event.origin, event.at);
        break;
      case "LabelsChanged":
      case "TitleGenerated":
        status.title = event.title;
        break;
      case "TodoChange":
        status.todos = [...event.todos];
        break;
      case "CompactEnd":
        this.#note(event.removed ? `The context was compacted: ${event.note}` : `Nothing to compact: ${event.note}`);
        break;
      case "Intervention":
        this.#note(`Plugins added: ${event.text}`);
        break;
      case "PluginError":
        this.#note(`The plugin ${event.plugin} failed at ${event.hook}: ${event.error}`, BAD);
        break;
      case "PluginAttached":
      case "PluginDetached": {
        const done = event.$ === "PluginAttached" ? "added" : "removed";
        const failed = event.success === false;
        this.#note(`The plugin ${event.plugin} was ${failed ? "not " : ""}${done}${failed ? `: ${event.error}` : ""}.`);
        break;
      }
      case "PluginOptsUpdated":
        this.#note(event.success ? `Other options for the plugin ${event.plugin}.` : `${event.plugin}: ${event.error}`);
        break;
      case "ToolsUpdated":
        this.#note(toolChanges(event));
        break;
      case "LoopDetected":
        this.#note(`The model repeats itself: ${event.name}, ${event.count} times.`, BAD);
        break;
      case "ContentPolicyViolated":
        this.#note(`A policy is violated: ${event.summary}`, BAD);
        break;
      case "UnknownEvent":
        this.#note(`An event of a newer version: ${event.kind}`);
        break;
      default: // events that change nothing of what is shown here
    }
  }
}

function resolution(event: View<"ApprovalResolved">): string {
  const parts = [event.status, event.edited ? "with other arguments" : "", event.by ? `by ${event.by}` : ""];
  return parts.filter(Boolean).join(" ") + (event.reason ? `: ${event.reason}` : "");
}

function toolChanges(event: View<"ToolsUpdated">): string {
  const parts = [
    event.attached.length ? `new tools: ${event.attached.join(", ")}` : "",
    event.detached.length ? `removed tools: ${event.detached.join(", ")}` : "",
    ...(event.problems ?? []),
  ];
  return `Tools of ${event.source || "the session"}: ${parts.filter(Boolean).join("; ")}.`;
}


/** What happened with a record, in words of people: `read_file returned`, `Ada approved`. */
import type { SessionEvent } from "../host/interface";
import { capitalised } from "./capitalised";
import type { RecordView } from "./records";

const MOST_CHARS = 120;
/** The most events that are told of one record. */
const MOST_EVENTS = 3;

function short(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > MOST_CHARS ? `${line.slice(0, MOST_CHARS)} …` : line;
}

const DECISIONS: Readonly<Record<string, string>> = {
  approved: "approved",
  rejected: "rejected",
  timeout: "did not decide in time",
};

/** Returns what an event tells; empty: others of the same record tell it, or it is of no interest to people. */
function told(event: SessionEvent, by: string): string {
  const who = by || "Somebody";
  switch (event.$) {
    case "PromptReceived":
      return `${who} said: ${short(event.text)}`;
    case "PromptQueued":
      return `${who} queued: ${short(event.text)}`;
    case "PromptRejected":
      return `The prompt was refused: ${short(event.reason)}`;
    case "SteeringReceived":
      return `${who} steered: ${short(event.text)}`;
    case "ResponseComplete": {
      const calls = (event.message.calls ?? []).map(({ name }) => name);
      if (calls.length) return `The model called ${calls.join(", ")}`;
      const text = (event.message.parts ?? []).map((part) => (part.$ === "Text" ? part.text : "")).join("");
      return `The model answered: ${short(text)}`;
    }
    case "Retry":
      return `The request failed and is made again: ${short(event.reason)}`;
    case "StreamError":
      return `The request failed: ${short(event.message)}`;
    case "ToolExecutionStart":
      return `${event.name} began`;
    case "ToolExecutionEnd":
      return `${event.name} ${event.is_error ? "failed" : "returned"}`;
    case "ToolBlocked":
      return `${event.plugin} blocked ${event.name}: ${short(event.reason)}`;
    case "ToolKilled":
      return `${event.name} was killed`;
    case "ToolUnknown":
      return `${event.name} was interrupted, and may have taken effect`;
    case "ApprovalRequired":
      return `${event.tool} waits for a person`;
    case "ApprovalResolved": {
      const decision = DECISIONS[event.status];
      const reason = event.reason ? `: ${short(event.reason)}` : "";
      return decision ? `${event.by || who} ${decision}${reason}` : `What waited for a person was ${event.status}${reason}`;
    }
    case "ResultRequired":
      return `${event.tool} waits for its result, which is made elsewhere`;
    case "AskUser":
      return `The agent asked: ${short(event.question)}`;
    case "UserResponded":
      return `${who} answered: ${short(event.response)}`;
    case "SubagentStart":
      return `The sub-agent ${event.agent || event.child} began${event.description ? `: ${short(event.description)}` : ""}`;
    case "AgentEnd":
      return event.reason === "end" ? "The turn ended" : `The turn ended: ${event.reason}`;
    case "AgentAbort":
      return `The turn was aborted${event.reason ? `: ${short(event.reason)}` : ""}`;
    case "SessionStarted":
      return "The session began";
    case "SessionEnded":
      return `The session ended: ${event.reason}`;
    case "SessionForked":
      return `It was forked from ${event.origin} after record ${event.at}`;
    case "SessionRestarted":
      return `It crashed and was started again: ${short(event.cause)}`;
    case "ModelSwitched":
      return `${who} switched the model to ${event.to}`;
    case "HandedOff":
      return `${event.from_} handed the conversation over to ${event.to}`;
    case "CompactEnd":
      return event.removed ? "The context was compacted" : "There was nothing to compact";
    case "PluginAttached":
      return `The plugin ${event.plugin} was added`;
    case "PluginDetached":
      return `The plugin ${event.plugin} was removed`;
    case "LabelsChanged":
    case "TitleGenerated":
      return event.title ? `Its title is now: ${short(event.title)}` : "Its labels changed";
    default:
      return "";
  }
}

/** Returns a name of the machine as words: `StreamEnded` is `Stream ended`. */
export function inWords(name: string): string {
  return capitalised(name.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase());
}

/** Returns what happened with *record*. */
export function happened(record: RecordView): string {
  const events = record.events.map((stored) => (stored as unknown as { readonly event: SessionEvent }).event);
  const handoff = events.find(({ $ }) => $ === "HandedOff");
  // What the other agent brings along is told by the handoff
  const telling = handoff ? events.filter(({ $ }) => $ !== "ModelSwitched") : events;
  const sentences = [...new Set(telling.map((event) => told(event, record.by)).filter(Boolean))];
  if (sentences.length === 0) return `${inWords(record.input.kind)}${record.by ? ` (${record.by})` : ""}`;
  const more = sentences.length - MOST_EVENTS;
  return sentences.slice(0, MOST_EVENTS).join("; ") + (more > 0 ? `; and ${more} more` : "");
}

/** Whose doing a record is, or how it came out. */
export type Kind = "person" | "model" | "good" | "bad" | "waits" | "sub" | "call" | "other";

const KINDS: Readonly<Partial<Record<SessionEvent["$"], Kind>>> = {
  PromptReceived: "person",
  PromptQueued: "person",
  SteeringReceived: "person",
  UserResponded: "person",
  ApprovalResolved: "person",
  ResponseComplete: "model",
  ApprovalRequired: "waits",
  AskUser: "waits",
  ResultRequired: "waits",
  SubagentStart: "sub",
  PromptRejected: "bad",
  Retry: "bad",
  StreamError: "bad",
  ToolBlocked: "bad",
  ToolKilled: "bad",
  ToolUnknown: "bad",
  AgentAbort: "bad",
  SessionRestarted: "bad",
  ToolExecutionStart: "call",
};

/** Which of several kinds tells most of a record. */
const FIRST_KINDS: readonly Kind[] = ["bad", "waits", "sub", "person", "good", "model", "call"];

/** Returns of which kind *record* is. */
export function kindOf(record: RecordView): Kind {
  const events = record.events.map((stored) => (stored as unknown as { readonly event: SessionEvent }).event);
  const kinds = new Set(events.map((event) => (event.$ === "ToolExecutionEnd" ? (event.is_error ? "bad" : "good") : KINDS[event.$])));
  return FIRST_KINDS.find((kind) => kinds.has(kind)) ?? "other";
}

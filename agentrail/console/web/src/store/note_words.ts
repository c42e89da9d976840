/** The sentences of a conversation: what is neither said nor called, and why calls ended. */
import type { Change, View } from "../host/interface";
import type { Note } from "./conversation";

const BAD = "bad";

/** The words of an event that is told by a note, its mood, and of which other session it is; no words for others. */
export function noteOf(event: Change): readonly [text: string, mood?: Note["mood"], about?: string, upTo?: number] {
  switch (event.$) {
    case "PromptDropped":
      return [`Dropped from the queue: ${event.text}`];
    case "PromptWithdrawn":
      return [`Withdrawn from the queue: ${event.text}`];
    case "PromptRejected":
      return [`The prompt was refused${event.plugin ? ` by ${event.plugin}` : ""}: ${event.reason}`, BAD];
    case "AgentEnd":
      return [event.reason === "end" ? "The turn is over." : `The turn is over: ${event.reason}.`, "end"];
    case "AgentAbort":
      return event.ref == null ? [""] : [`The turn was aborted (${event.kind})${event.reason ? `: ${event.reason}` : "."}`, BAD];
    case "Retry":
      return [`Attempt ${event.attempt} failed and is made again: ${event.reason}`, BAD];
    case "StreamError":
      return [`The request failed: ${event.error}: ${event.message}`, BAD];
    case "StreamStalled":
      return [`Nothing came from the model for ${event.elapsed_s} s.`, BAD];
    case "ContextOverflow":
      return [`The conversation is too long for the model: ${event.message}`, BAD];
    case "AnswerRejected":
      return [`The answer does not fit what was asked for: ${event.reason}`, BAD];
    case "ModelSwitched":
      return [`Model: ${event.from_} → ${event.to}${event.reason ? `: ${event.reason}` : ""}`];
    case "ModelOptionsChanged":
      return [`Other options for ${event.model}.`];
    case "SessionEnded":
      return [`The session has ended: ${event.reason}`, "end"];
    case "SessionRestarted":
      return [`The session crashed and was started again: ${event.cause}`, BAD];
    case "SessionQuarantined":
    case "InputQuarantined":
      return [`Set aside, because it crashed too often: ${event.cause}`, BAD];
    case "SessionForked":
      return [`A fork, with the past up to record ${event.at} of the session`, "plain", event.origin, event.at];
    case "CompactEnd":
      return [event.removed ? `The context was compacted: ${event.note}` : `Nothing to compact: ${event.note}`];
    case "Intervention":
      return [`Plugins added: ${event.text}`];
    case "PluginError":
      return [`The plugin ${event.plugin} failed at ${event.hook}: ${event.error}`, BAD];
    case "PluginAttached":
    case "PluginDetached": {
      const done = event.$ === "PluginAttached" ? "added" : "removed";
      const failed = event.success === false;
      return [`The plugin ${event.plugin} was ${failed ? "not " : ""}${done}${failed ? `: ${event.error}` : ""}.`];
    }
    case "PluginOptsUpdated":
      return [event.success ? `Other options for the plugin ${event.plugin}.` : `${event.plugin}: ${event.error}`];
    case "ToolsUpdated":
      return [toolChanges(event)];
    case "LoopDetected":
      return [`The model repeats itself: ${event.name}, ${event.count} times.`, BAD];
    case "ContentPolicyViolated":
      return [`A policy is violated: ${event.summary}`, BAD];
    case "UnknownEvent":
      return [`An event of a newer version: ${event.kind}`];
    default: // it changes nothing of what is said here
      return [""];
  }
}

/** Why a call has ended without a result of its own. */
export function endReason(cause: NonNullable<View<"CallEndedView">["cause"]>): string {
  switch (cause.$) {
    case "ApprovalResolved":
      return resolution(cause);
    case "ToolBlocked":
      return `${cause.plugin}: ${cause.reason}`;
    case "ToolKilled":
      return cause.reason;
    case "ToolUnknown":
      return "It was interrupted, and may have taken effect.";
    case "ToolSkippedForSteering":
      return "A steering text came.";
    default:
      return "";
  }
}

export function resolution(event: View<"ApprovalResolved">): string {
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


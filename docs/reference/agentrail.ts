// What sessions of agentrail write as JSON: types for programs in TypeScript.
/* [[[cog
from docs.printing import typescript_page
from tests.docs.sources import printed
cog.outl(printed(typescript_page.declarations()))
]]] */

/** An event with its session, its place in the stream and its time. */
export interface Envelope {
  session_id: string;
  seq: number;
  n: number;
  at: number;
  turn: number;
  round: number;
  event: BeforeCompact | CompactEnd | CompactStart | ContentPolicyViolated | Intervention | MemoryFlushed | PlanGenerated | PlanStepCompleted | PrefixChanged | SecurityAudit | AbortPending | AgentAbort | AgentEnd | AgentResumed | AgentStart | FilesRewound | HandedOff | InputQuarantined | PromptDropped | PromptQueued | PromptReceived | PromptRejected | PromptWithdrawn | SessionEnded | LabelsChanged | SessionForked | SessionHibernated | SessionQuarantined | SessionRecovered | SessionRestarted | SessionStarted | SessionWoken | SteeringApplied | SteeringReceived | ApprovalRequired | ApprovalResolved | AskUser | ResultRequired | ToolApprovedAlways | UserResponded | AskAnswered | AskStarted | Gap | Heartbeat | PluginAttached | PluginDetached | PluginError | PluginEvent | PluginOptsUpdated | PluginSlow | PluginUpgraded | ShadowDiffers | ShadowEnded | UnknownEvent | ContextOverflow | MessageDelta | MessageStart | ModelEffective | ModelOptionsChanged | ModelSwitched | RequestStart | ResponseComplete | Retry | StatusUpdate | StreamError | StreamStalled | ThinkingDelta | ThinkingStart | AnswerRejected | TitleGenerated | LargeResultOffloaded | LoopDetected | SubAgentEvent | SubagentEnd | SubagentStart | TodoChange | ToolAbandoned | ToolAttached | ToolBlocked | ToolCallUnknown | ToolCalls | ToolDetached | ToolExecutionEnd | ToolExecutionMetrics | ToolExecutionStart | ToolExecutionUpdate | ToolKilled | ToolSkippedForSteering | ToolUnknown | ToolsFound | ToolsUpdated;
  path?: string[];
  by?: string;
}

/** How a turn ended, with all that was said in it. */
export interface WholeReplyView {
  ref: string;
  stop_reason: string;
  text: string;
  answer: Record<string, unknown> | null;
  usage: UsageView;
  held: HeldView[];
  session: string;
  dropped: ToolCall[];
  messages: (UserMessage | AssistantMessage | ToolMessage)[];
  fits: boolean;
}

/** What a running session does. */
export interface StatusView {
  phase: string;
  model: string;
  turn: number;
  round: number;
  turn_open: boolean;
  usage: UsageView;
  queued: number;
  steering: number;
  held: HeldView[];
  asking: AskingView[];
  lingering: BackgroundView[];
  quarantined: BackgroundView[];
  tasks: TaskView[];
  compacting: CompactingView | null;
  waits: boolean;
  agent: string;
}

/** What stood in the way of a request (RFC 9457). */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  attempted: string;
  found: string;
  to_do: string;
  error: string;
  facts: unknown[];
  retry_after?: number;
}

/** The context is about to be compacted; plugins are asked first. */
export interface BeforeCompact {
  $: "BeforeCompact";
  messages: number;
  reason: string;
}

/** The compaction has ended. */
export interface CompactEnd {
  $: "CompactEnd";
  removed: number;
  note: string;
  crowded?: ContextUsage | null;
}

/** The compaction has started. */
export interface CompactStart {
  $: "CompactStart";
  messages: number;
  reason?: string;
  tokens?: number;
  window?: number;
}

/** A plugin that judges content found a violation of a policy. */
export interface ContentPolicyViolated {
  $: "ContentPolicyViolated";
  summary: string;
  policies: string[];
}

/** Plugins added a text to the conversation. */
export interface Intervention {
  $: "Intervention";
  text: string;
  hook: string;
  applied?: boolean;
}

/** Facts were written to memory. */
export interface MemoryFlushed {
  $: "MemoryFlushed";
  facts: string[];
  count: number;
}

/** A plugin made a plan. */
export interface PlanGenerated {
  $: "PlanGenerated";
  steps: string[];
}

/** A step of the plan is done. */
export interface PlanStepCompleted {
  $: "PlanStepCompleted";
  index: number;
  text: string;
}

/** A request does not begin with the last one, so the provider reads again what it had in its prompt cache. It is derived from the two requests for those who subscribe, and is not stored; `seen` derives it from the records. */
export interface PrefixChanged {
  $: "PrefixChanged";
  part: string;
  name: string;
  by: string;
  tokens: number;
}

/** A security plugin blocked or held a call. */
export interface SecurityAudit {
  $: "SecurityAudit";
  call_id: string;
  tool: string;
  decision: string;
  reason: string;
}

/** An abort has stopped all work, but is not yet recorded in the journal. */
export interface AbortPending {
  $: "AbortPending";
}

/** An abort was carried out; if a turn was open, it has ended. */
export interface AgentAbort {
  $: "AgentAbort";
  ref: string | null;
  kind: string;
  reason?: string | null;
}

/** A turn has finished normally. */
export interface AgentEnd {
  $: "AgentEnd";
  ref: string;
  reason: string;
  messages: (UserMessage | AssistantMessage | ToolMessage)[];
  usage: Usage;
  fits?: boolean;
}

/** The turn continues after it has waited, or was interrupted by steering. */
export interface AgentResumed {
  $: "AgentResumed";
  trigger: string;
}

/** A turn has started. */
export interface AgentStart {
  $: "AgentStart";
  ref: string;
}

/** `rewind` has brought back files that the agent had changed. */
export interface FilesRewound {
  $: "FilesRewound";
  since: number;
  paths: string[];
  count: number;
}

/** Another agent of `SessionSpec.handoffs` goes on with the conversation. */
export interface HandedOff {
  $: "HandedOff";
  from_: string;
  to: string;
  call_id: string;
}

/** A message that crashed the session's actor again and again was set aside. A command of a caller: after two crashes; its caller gets an error, and the session goes on. Any other message: after three, and the session is set aside with it. */
export interface InputQuarantined {
  $: "InputQuarantined";
  input: string;
  cause: string;
}

/** A queued prompt was dropped by an abort or the session's end. */
export interface PromptDropped {
  $: "PromptDropped";
  ref: string;
  text: string;
}

/** A prompt waits for the open turn to end. */
export interface PromptQueued {
  $: "PromptQueued";
  ref: string;
  text: string;
  position: number;
}

/** A prompt was taken, and its turn starts. */
export interface PromptReceived {
  $: "PromptReceived";
  ref: string;
  text: string;
  replaced_by?: string[];
}

/** A plugin refused a prompt, or an abort came before its turn started. */
export interface PromptRejected {
  $: "PromptRejected";
  ref: string;
  reason: string;
  plugin?: string | null;
}

/** A caller took a queued prompt back. */
export interface PromptWithdrawn {
  $: "PromptWithdrawn";
  ref: string;
  text: string;
}

/** The session has ended for good; always its last event. */
export interface SessionEnded {
  $: "SessionEnded";
  reason: string;
}

/** The session has another title, or other labels. */
export interface LabelsChanged {
  $: "LabelsChanged";
  title: string;
  labels: string[];
}

/** The session was started as a fork of another one. */
export interface SessionForked {
  $: "SessionForked";
  origin: string;
  at: number;
  left_behind?: string[];
}

/** The session freed its memory; the next message wakes it. */
export interface SessionHibernated {
  $: "SessionHibernated";
}

/** The session crashed too often and is not restarted; it can be read and forked. */
export interface SessionQuarantined {
  $: "SessionQuarantined";
  cause: string;
}

/** The session was rebuilt from its journal. */
export interface SessionRecovered {
  $: "SessionRecovered";
  records: number;
}

/** The session's actor crashed and was started again. */
export interface SessionRestarted {
  $: "SessionRestarted";
  cause: string;
}

/** A new session has started: its plugins have agreed. */
export interface SessionStarted {
  $: "SessionStarted";
  model: string;
}

/** A hibernating session was rebuilt from its journal because a message came. */
export interface SessionWoken {
  $: "SessionWoken";
}

/** All queued steering texts were added to the conversation as one user message. */
export interface SteeringApplied {
  $: "SteeringApplied";
  refs: string[];
  count: number;
}

/** A steering text was queued, refused, or dropped from the queue. */
export interface SteeringReceived {
  $: "SteeringReceived";
  ref: string;
  text: string;
  status: string;
  reason?: string | null;
  replaced_by?: string[];
}

/** A plugin holds a call until a person approves or rejects it. */
export interface ApprovalRequired {
  $: "ApprovalRequired";
  approval_id: string;
  call_id: string;
  tool: string;
  args: Record<string, unknown>;
  hint: string;
  plugin: string;
  requested_at: number;
  expires_at: number | null;
  family?: string | null;
  path?: string[];
  digest?: string;
}

/** A held call was decided, or what waited for a decision, an answer or a result was dropped: it waits no more. With the status `cleared`, a person ended the doubt about a stopped call, so an equal call is not held. */
export interface ApprovalResolved {
  $: "ApprovalResolved";
  approval_id: string;
  call_id: string;
  tool: string;
  status: string;
  reason?: string | null;
  edited?: boolean;
  by?: string;
}

/** A tool asks a person a question. */
export interface AskUser {
  $: "AskUser";
  ref: string;
  call_id: string;
  question: string;
  options?: string[];
  path?: string[];
}

/** A call waits for its result, which somebody elsewhere gives; `ToolExecutionEnd` tells that it has come. */
export interface ResultRequired {
  $: "ResultRequired";
  ref: string;
  call_id: string;
  tool: string;
  args: Record<string, unknown>;
  expires_at: number;
  path?: string[];
}

/** A person approved all later calls of this kind, so they are not held any more. */
export interface ToolApprovedAlways {
  $: "ToolApprovedAlways";
  tool: string;
  command_family: string;
  by?: string;
}

/** A person answered a question. */
export interface UserResponded {
  $: "UserResponded";
  ref: string;
  response: string;
}

/** A plugin's request was carried out, failed, or was dropped. */
export interface AskAnswered {
  $: "AskAnswered";
  ask_id: string;
  plugin: string;
  status: string;
}

/** A plugin asked for something (`Ask`); its hook is paused until the answer. */
export interface AskStarted {
  $: "AskStarted";
  ask_id: string;
  plugin: string;
  hook: string;
  request: string;
}

/** This subscriber missed the events between two positions. */
export interface Gap {
  $: "Gap";
  from_seq: number;
  from_n: number;
  to_seq: number;
  to_n: number;
}

/** Nothing has happened for a while. agentrail sends none: a server that passes events on may, to its clients. */
export interface Heartbeat {
  $: "Heartbeat";
}

/** A plugin was added to the session, or could not be. */
export interface PluginAttached {
  $: "PluginAttached";
  plugin: string;
  success?: boolean;
  error?: string | null;
}

/** A plugin was removed from the session, or could not be. */
export interface PluginDetached {
  $: "PluginDetached";
  plugin: string;
  success?: boolean;
  error?: string | null;
}

/** A plugin failed; its state did not change. */
export interface PluginError {
  $: "PluginError";
  plugin: string;
  hook: string;
  error: string;
}

/** A plugin emitted an event of its own. */
export interface PluginEvent {
  $: "PluginEvent";
  plugin: string;
  name: string;
  payload: unknown;
}

/** An update of a plugin's options was applied or refused. */
export interface PluginOptsUpdated {
  $: "PluginOptsUpdated";
  plugin: string;
  success: boolean;
  error?: string | null;
  dropped?: string[];
}

/** The plugins' hooks took too long in one step of the session. */
export interface PluginSlow {
  $: "PluginSlow";
  plugins: string[];
  elapsed_ms: number;
}

/** A plugin's stored state was converted to the version of its code. */
export interface PluginUpgraded {
  $: "PluginUpgraded";
  plugin: string;
  from_version: number;
  to_version: number;
}

/** Plugins in the shadow of the session would have ruled otherwise at a hook; nothing came of it. */
export interface ShadowDiffers {
  $: "ShadowDiffers";
  plugin: string;
  hook: string;
  call_id: string;
  then: string;
  now: string;
}

/** The shadow of the session was let go of: it was slow, hung, or cannot follow any more. */
export interface ShadowEnded {
  $: "ShadowEnded";
  reason: string;
}

/** An event written by a newer version of the library, which this version does not know. */
export interface UnknownEvent {
  $: "UnknownEvent";
  kind: string;
  body: Record<string, unknown>;
}

/** The provider reported that the conversation is too long for the model. */
export interface ContextOverflow {
  $: "ContextOverflow";
  message: string;
}

/** A piece of the response's text. */
export interface MessageDelta {
  $: "MessageDelta";
  delta: string;
}

/** The first chunk of a response came. */
export interface MessageStart {
  $: "MessageStart";
  request_id: string;
}

/** The first request is sent to the model that was chosen. */
export interface ModelEffective {
  $: "ModelEffective";
  model: string;
}

/** The model stays, and gets other options: by a caller, a plugin, or because a fallback is the same model. */
export interface ModelOptionsChanged {
  $: "ModelOptionsChanged";
  model: string;
  by?: string | null;
  reason?: string | null;
}

/** Another model was chosen, by a caller, a plugin, or as a fallback. */
export interface ModelSwitched {
  $: "ModelSwitched";
  from_: string;
  to: string;
  provider_opts_changed: boolean;
  by?: string | null;
  reason?: string | null;
}

/** A request was sent to the model. */
export interface RequestStart {
  $: "RequestStart";
  request_id: string;
  model: string;
  messages: number;
  attempt: number;
}

/** A response is complete. */
export interface ResponseComplete {
  $: "ResponseComplete";
  message: AssistantMessage;
  replaced_by?: string[];
}

/** A request failed and will be tried again; discard its deltas. */
export interface Retry {
  $: "Retry";
  attempt: number;
  delay_ms: number;
  reason: string;
  dropped_text?: boolean;
}

/** The model reported what it is doing, in a `<status>` tag. */
export interface StatusUpdate {
  $: "StatusUpdate";
  text: string;
}

/** A request failed and is not tried again. */
export interface StreamError {
  $: "StreamError";
  error: string;
  message: string;
}

/** No chunk of a response came for `stall_timeout` seconds. */
export interface StreamStalled {
  $: "StreamStalled";
  elapsed_s: number;
  count: number;
}

/** A piece of the model's thoughts. */
export interface ThinkingDelta {
  $: "ThinkingDelta";
  delta: string;
}

/** The model started to write its thoughts (reasoning). */
export interface ThinkingStart {
  $: "ThinkingStart";
}

/** The model's answer does not fit the schema which the prompt asked for. */
export interface AnswerRejected {
  $: "AnswerRejected";
  attempt: number;
  reason: string;
  is_last: boolean;
}

/** The model gave the conversation a title, in a `<title>` tag. */
export interface TitleGenerated {
  $: "TitleGenerated";
  title: string;
}

/** A large result was written to a file; the model sees only part of it. */
export interface LargeResultOffloaded {
  $: "LargeResultOffloaded";
  call_id: string;
  name: string;
  path: string;
  bytes: number;
}

/** The model repeats itself: it makes the same call again and again, or many calls about one subject. */
export interface LoopDetected {
  $: "LoopDetected";
  kind: string;
  name: string;
  count: number;
  subject?: string | null;
}

/** A sub-agent emitted an event. */
export interface SubAgentEvent {
  $: "SubAgentEvent";
  call_id: string;
  child: string;
  event: BeforeCompact | CompactEnd | CompactStart | ContentPolicyViolated | Intervention | MemoryFlushed | PlanGenerated | PlanStepCompleted | PrefixChanged | SecurityAudit | AbortPending | AgentAbort | AgentEnd | AgentResumed | AgentStart | FilesRewound | HandedOff | InputQuarantined | PromptDropped | PromptQueued | PromptReceived | PromptRejected | PromptWithdrawn | SessionEnded | LabelsChanged | SessionForked | SessionHibernated | SessionQuarantined | SessionRecovered | SessionRestarted | SessionStarted | SessionWoken | SteeringApplied | SteeringReceived | ApprovalRequired | ApprovalResolved | AskUser | ResultRequired | ToolApprovedAlways | UserResponded | AskAnswered | AskStarted | Gap | Heartbeat | PluginAttached | PluginDetached | PluginError | PluginEvent | PluginOptsUpdated | PluginSlow | PluginUpgraded | ShadowDiffers | ShadowEnded | UnknownEvent | ContextOverflow | MessageDelta | MessageStart | ModelEffective | ModelOptionsChanged | ModelSwitched | RequestStart | ResponseComplete | Retry | StatusUpdate | StreamError | StreamStalled | ThinkingDelta | ThinkingStart | AnswerRejected | TitleGenerated | LargeResultOffloaded | LoopDetected | SubAgentEvent | SubagentEnd | SubagentStart | TodoChange | ToolAbandoned | ToolAttached | ToolBlocked | ToolCallUnknown | ToolCalls | ToolDetached | ToolExecutionEnd | ToolExecutionMetrics | ToolExecutionStart | ToolExecutionUpdate | ToolKilled | ToolSkippedForSteering | ToolUnknown | ToolsFound | ToolsUpdated;
}

/** A sub-agent ended. */
export interface SubagentEnd {
  $: "SubagentEnd";
  call_id: string;
  child: string;
  text: string;
  is_error: boolean;
}

/** A sub-agent was started. */
export interface SubagentStart {
  $: "SubagentStart";
  call_id: string;
  child: string;
  description: string;
  agent?: string;
  background?: boolean;
  peers?: string[];
}

/** The session's list of things to do changed. */
export interface TodoChange {
  $: "TodoChange";
  todos: Todo[];
}

/** A cancelled call still runs after a quarter of a second. */
export interface ToolAbandoned {
  $: "ToolAbandoned";
  call_id: string;
  name: string;
}

/** A tool was added to the session. */
export interface ToolAttached {
  $: "ToolAttached";
  name: string;
}

/** A plugin blocked a call. */
export interface ToolBlocked {
  $: "ToolBlocked";
  call_id: string;
  name: string;
  reason: string;
  plugin: string;
}

/** The model called a tool that does not exist. */
export interface ToolCallUnknown {
  $: "ToolCallUnknown";
  call_id: string;
  name: string;
}

/** The model's response asks for tool calls. */
export interface ToolCalls {
  $: "ToolCalls";
  count: number;
}

/** A tool was removed from the session. */
export interface ToolDetached {
  $: "ToolDetached";
  name: string;
}

/** A call has ended with a result. */
export interface ToolExecutionEnd {
  $: "ToolExecutionEnd";
  call_id: string;
  name: string;
  content: (Text | Image | File | Data)[];
  is_error: boolean;
  details?: Record<string, unknown> | null;
  late?: boolean;
}

/** How long a call took. */
export interface ToolExecutionMetrics {
  $: "ToolExecutionMetrics";
  call_id: string;
  name: string;
  started_at_ms: number;
  ended_at_ms: number;
  duration_ms: number;
}

/** A tool call started, or a tool run that a plugin asked for. */
export interface ToolExecutionStart {
  $: "ToolExecutionStart";
  call_id: string;
  name: string;
  args: Record<string, unknown>;
  attempt?: number;
  standing?: StandingApproval[];
}

/** A running call reported its progress. */
export interface ToolExecutionUpdate {
  $: "ToolExecutionUpdate";
  call_id: string;
  update: string;
}

/** A call got an error result because its turn was aborted. */
export interface ToolKilled {
  $: "ToolKilled";
  call_id: string;
  name: string;
  reason: string;
}

/** A call got an error result because the user sent a steering text. */
export interface ToolSkippedForSteering {
  $: "ToolSkippedForSteering";
  call_id: string;
  name: string;
}

/** It is not known whether an interrupted call has taken effect. */
export interface ToolUnknown {
  $: "ToolUnknown";
  call_id: string;
  name: string;
}

/** The model looked for deferred tools, with `find_tools`. */
export interface ToolsFound {
  $: "ToolsFound";
  call_id: string;
  query: string;
  names: string[];
}

/** Several tools were added or removed in one step. */
export interface ToolsUpdated {
  $: "ToolsUpdated";
  attached: string[];
  detached: string[];
  source?: string;
  problems?: string[];
}

/** Tokens and cost. */
export interface UsageView {
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  reasoning_tokens: number;
  cache_write_tokens: number;
  cost_usd: number | null;
  estimated: boolean;
}

/** A call that waits for a person's decision or answer. */
export interface HeldView {
  id: string;
  kind: string;
  call_id: string;
  tool: string;
  args: Record<string, unknown>;
  hint: string;
  options: string[];
  expires_at: number | null;
  family: string | null;
  path: string[];
  since: number;
  asked_by: string[];
  digest: string;
  session: string;
}

/** A tool call that the model asks for. */
export interface ToolCall {
  call_id: string;
  name: string;
  args?: Record<string, unknown>;
  provider_id?: string;
  via?: string;
}

/** A message to the model that is no tool result. */
export interface UserMessage {
  $: "UserMessage";
  parts: (Text | Image | File | Data)[];
  origin?: Origin;
}

/** A response of the model. */
export interface AssistantMessage {
  $: "AssistantMessage";
  parts?: (Text | Thinking)[];
  calls?: ToolCall[];
  model?: string;
  stop?: StopReason;
  usage?: Usage;
  interrupted?: boolean;
}

/** The result of one tool call. */
export interface ToolMessage {
  $: "ToolMessage";
  call_id: string;
  name: string;
  parts: (Text | Image | File | Data)[];
  is_error?: boolean;
  details?: Record<string, unknown> | null;
}

/** A hook that is paused until what a plugin asked for is done. */
export interface AskingView {
  hook: string;
  plugin: string;
  request: string;
}

/** A call that still runs although its turn no longer waits for it. */
export interface BackgroundView {
  call_id: string;
  name: string;
  since: number;
  abandoned: boolean;
}

/** One run of a sub-agent. */
export interface TaskView {
  child: string;
  agent: string;
  description: string;
  call_id: string;
  background: boolean;
  status: string;
  peers: string[];
}

/** A compaction of the context that is under way. */
export interface CompactingView {
  reason: string;
  tokens: number;
}

/** The size of a context that exceeds the aim of a compaction, and its largest parts, in estimated tokens. */
export interface ContextUsage {
  tokens: number;
  target: number;
  system: number;
  tools: number;
  messages: number;
}

/** Tokens and cost of a response, a turn or a session. */
export interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  cached_tokens?: number;
  reasoning_tokens?: number;
  cost_usd?: number | null;
  estimated?: boolean;
  cache_write_tokens?: number;
}

/** An item of the session's list of things to do. */
export interface Todo {
  text: string;
  status?: string;
}

/** Plain text. */
export interface Text {
  $: "Text";
  text: string;
}

/** An image. */
export interface Image {
  $: "Image";
  media_type: string;
  data: string;
}

/** A file for the model to read, such as a PDF: its bytes, or where the provider gets them. It has either `data` or a `reference`: a URL, or with `provider` the id of a file that was uploaded there. */
export interface File {
  $: "File";
  media_type: string;
  data?: string;
  reference?: string;
  name?: string;
  provider?: string;
}

/** A JSON value; two are equal if they are the same JSON. */
export interface Data {
  $: "Data";
  data: unknown;
}

/** An approval for always: later calls of its kind run without being held. */
export interface StandingApproval {
  tool: string;
  command_family: string;
  by?: string;
  at_ms?: number;
}

/** Who wrote a user message: a person, a steering text, a plugin, or the session. */
export type Origin = "intervention" | "notice" | "prompt" | "steering";

/** Thoughts (reasoning) of the model. */
export interface Thinking {
  $: "Thinking";
  text: string;
  signature?: string | null;
}

/** Why the model stopped. */
export type StopReason = "end" | "length" | "refused" | "tool_calls";

// [[[end]]]

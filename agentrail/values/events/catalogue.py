"""The closed union of all events."""

from __future__ import annotations

from typing import Final, TypeAlias, get_args

from agentrail.values.events.context import (
    BeforeCompact,
    CompactEnd,
    CompactStart,
    ContentPolicyViolated,
    Intervention,
    MemoryFlushed,
    PlanGenerated,
    PlanStepCompleted,
    SecurityAudit,
)
from agentrail.values.events.envelope import (
    Cursor,
    Envelope,
    Ephemeral,
    Event,
)
from agentrail.values.events.life import (
    AbortPending,
    AgentAbort,
    AgentEnd,
    AgentResumed,
    AgentStart,
    InputQuarantined,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptWithdrawn,
    SessionEnded,
    SessionForked,
    SessionHibernated,
    SessionQuarantined,
    SessionRecovered,
    SessionRestarted,
    SessionStarted,
    SessionWoken,
    SteeringApplied,
    SteeringReceived,
)
from agentrail.values.events.people import (
    ApprovalRequired,
    ApprovalResolved,
    AskUser,
    ToolApprovedAlways,
    UserResponded,
)
from agentrail.values.events.plugins import (
    AskAnswered,
    AskStarted,
    Gap,
    Heartbeat,
    PluginAttached,
    PluginDetached,
    PluginError,
    PluginEvent,
    PluginOptsUpdated,
    PluginSlow,
    PluginUpgraded,
    UnknownEvent,
)
from agentrail.values.events.response import (
    ContextOverflow,
    MessageDelta,
    MessageStart,
    ModelEffective,
    ModelSwitched,
    RequestStart,
    ResponseComplete,
    Retry,
    StatusUpdate,
    StreamError,
    StreamStalled,
    ThinkingDelta,
    ThinkingStart,
    TitleGenerated,
)
from agentrail.values.events.tools import (
    LargeResultOffloaded,
    LoopDetected,
    SubagentEnd,
    SubAgentEvent,
    SubagentStart,
    TodoChange,
    ToolAbandoned,
    ToolAttached,
    ToolBlocked,
    ToolCalls,
    ToolCallUnknown,
    ToolDetached,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolKilled,
    ToolSkippedForSteering,
    ToolsUpdated,
    ToolUnknown,
)

AnyEvent: TypeAlias = (
    BeforeCompact
    | CompactEnd
    | CompactStart
    | ContentPolicyViolated
    | Intervention
    | MemoryFlushed
    | PlanGenerated
    | PlanStepCompleted
    | SecurityAudit
    | AbortPending
    | AgentAbort
    | AgentEnd
    | AgentResumed
    | AgentStart
    | InputQuarantined
    | PromptDropped
    | PromptQueued
    | PromptReceived
    | PromptRejected
    | PromptWithdrawn
    | SessionEnded
    | SessionForked
    | SessionHibernated
    | SessionQuarantined
    | SessionRecovered
    | SessionRestarted
    | SessionStarted
    | SessionWoken
    | SteeringApplied
    | SteeringReceived
    | ApprovalRequired
    | ApprovalResolved
    | AskUser
    | ToolApprovedAlways
    | UserResponded
    | AskAnswered
    | AskStarted
    | Gap
    | Heartbeat
    | PluginAttached
    | PluginDetached
    | PluginError
    | PluginEvent
    | PluginOptsUpdated
    | PluginSlow
    | PluginUpgraded
    | UnknownEvent
    | ContextOverflow
    | MessageDelta
    | MessageStart
    | ModelEffective
    | ModelSwitched
    | RequestStart
    | ResponseComplete
    | Retry
    | StatusUpdate
    | StreamError
    | StreamStalled
    | ThinkingDelta
    | ThinkingStart
    | TitleGenerated
    | LargeResultOffloaded
    | LoopDetected
    | SubAgentEvent
    | SubagentEnd
    | SubagentStart
    | TodoChange
    | ToolAbandoned
    | ToolAttached
    | ToolBlocked
    | ToolCallUnknown
    | ToolCalls
    | ToolDetached
    | ToolExecutionEnd
    | ToolExecutionMetrics
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolKilled
    | ToolSkippedForSteering
    | ToolUnknown
    | ToolsUpdated
)
"""The closed union of all events."""

EVENTS: Final[tuple[type[Event], ...]] = get_args(AnyEvent)
"""All event classes, in the order of the catalogue."""

__all__ = [
    "EVENTS",
    "AbortPending",
    "AgentAbort",
    "AgentEnd",
    "AgentResumed",
    "AgentStart",
    "AnyEvent",
    "ApprovalRequired",
    "ApprovalResolved",
    "AskAnswered",
    "AskStarted",
    "AskUser",
    "BeforeCompact",
    "CompactEnd",
    "CompactStart",
    "ContentPolicyViolated",
    "ContextOverflow",
    "Cursor",
    "Envelope",
    "Ephemeral",
    "Event",
    "Gap",
    "Heartbeat",
    "InputQuarantined",
    "Intervention",
    "LargeResultOffloaded",
    "LoopDetected",
    "MemoryFlushed",
    "MessageDelta",
    "MessageStart",
    "ModelEffective",
    "ModelSwitched",
    "PlanGenerated",
    "PlanStepCompleted",
    "PluginAttached",
    "PluginDetached",
    "PluginError",
    "PluginEvent",
    "PluginOptsUpdated",
    "PluginSlow",
    "PluginUpgraded",
    "PromptDropped",
    "PromptQueued",
    "PromptReceived",
    "PromptRejected",
    "PromptWithdrawn",
    "RequestStart",
    "ResponseComplete",
    "Retry",
    "SecurityAudit",
    "SessionEnded",
    "SessionForked",
    "SessionHibernated",
    "SessionQuarantined",
    "SessionRecovered",
    "SessionRestarted",
    "SessionStarted",
    "SessionWoken",
    "StatusUpdate",
    "SteeringApplied",
    "SteeringReceived",
    "StreamError",
    "StreamStalled",
    "SubAgentEvent",
    "SubagentEnd",
    "SubagentStart",
    "ThinkingDelta",
    "ThinkingStart",
    "TitleGenerated",
    "TodoChange",
    "ToolAbandoned",
    "ToolApprovedAlways",
    "ToolAttached",
    "ToolBlocked",
    "ToolCallUnknown",
    "ToolCalls",
    "ToolDetached",
    "ToolExecutionEnd",
    "ToolExecutionMetrics",
    "ToolExecutionStart",
    "ToolExecutionUpdate",
    "ToolKilled",
    "ToolSkippedForSteering",
    "ToolUnknown",
    "ToolsUpdated",
    "UnknownEvent",
    "UserResponded",
]

"""Everything that a session reports, and the envelope and place of each event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.values.events import EVENTS as EVENTS
    from agentrail.values.events import AbortPending as AbortPending
    from agentrail.values.events import AgentAbort as AgentAbort
    from agentrail.values.events import AgentEnd as AgentEnd
    from agentrail.values.events import AgentResumed as AgentResumed
    from agentrail.values.events import AgentStart as AgentStart
    from agentrail.values.events import AnyEvent as AnyEvent
    from agentrail.values.events import ApprovalRequired as ApprovalRequired
    from agentrail.values.events import ApprovalResolved as ApprovalResolved
    from agentrail.values.events import AskAnswered as AskAnswered
    from agentrail.values.events import AskStarted as AskStarted
    from agentrail.values.events import AskUser as AskUser
    from agentrail.values.events import BeforeCompact as BeforeCompact
    from agentrail.values.events import CompactEnd as CompactEnd
    from agentrail.values.events import CompactStart as CompactStart
    from agentrail.values.events import ContentPolicyViolated as ContentPolicyViolated
    from agentrail.values.events import ContextOverflow as ContextOverflow
    from agentrail.values.events import Cursor as Cursor
    from agentrail.values.events import Envelope as Envelope
    from agentrail.values.events import Ephemeral as Ephemeral
    from agentrail.values.events import Event as Event
    from agentrail.values.events import Gap as Gap
    from agentrail.values.events import Heartbeat as Heartbeat
    from agentrail.values.events import InputQuarantined as InputQuarantined
    from agentrail.values.events import Intervention as Intervention
    from agentrail.values.events import LargeResultOffloaded as LargeResultOffloaded
    from agentrail.values.events import LoopDetected as LoopDetected
    from agentrail.values.events import MemoryFlushed as MemoryFlushed
    from agentrail.values.events import MessageDelta as MessageDelta
    from agentrail.values.events import MessageStart as MessageStart
    from agentrail.values.events import ModelEffective as ModelEffective
    from agentrail.values.events import ModelSwitched as ModelSwitched
    from agentrail.values.events import PlanGenerated as PlanGenerated
    from agentrail.values.events import PlanStepCompleted as PlanStepCompleted
    from agentrail.values.events import PluginAttached as PluginAttached
    from agentrail.values.events import PluginDetached as PluginDetached
    from agentrail.values.events import PluginError as PluginError
    from agentrail.values.events import PluginEvent as PluginEvent
    from agentrail.values.events import PluginOptsUpdated as PluginOptsUpdated
    from agentrail.values.events import PluginSlow as PluginSlow
    from agentrail.values.events import PluginUpgraded as PluginUpgraded
    from agentrail.values.events import PromptDropped as PromptDropped
    from agentrail.values.events import PromptQueued as PromptQueued
    from agentrail.values.events import PromptReceived as PromptReceived
    from agentrail.values.events import PromptRejected as PromptRejected
    from agentrail.values.events import PromptWithdrawn as PromptWithdrawn
    from agentrail.values.events import RequestStart as RequestStart
    from agentrail.values.events import ResponseComplete as ResponseComplete
    from agentrail.values.events import Retry as Retry
    from agentrail.values.events import SecurityAudit as SecurityAudit
    from agentrail.values.events import SessionEnded as SessionEnded
    from agentrail.values.events import SessionForked as SessionForked
    from agentrail.values.events import SessionHibernated as SessionHibernated
    from agentrail.values.events import SessionQuarantined as SessionQuarantined
    from agentrail.values.events import SessionRecovered as SessionRecovered
    from agentrail.values.events import SessionRestarted as SessionRestarted
    from agentrail.values.events import SessionStarted as SessionStarted
    from agentrail.values.events import SessionWoken as SessionWoken
    from agentrail.values.events import StatusUpdate as StatusUpdate
    from agentrail.values.events import SteeringApplied as SteeringApplied
    from agentrail.values.events import SteeringReceived as SteeringReceived
    from agentrail.values.events import StreamError as StreamError
    from agentrail.values.events import StreamStalled as StreamStalled
    from agentrail.values.events import SubagentEnd as SubagentEnd
    from agentrail.values.events import SubAgentEvent as SubAgentEvent
    from agentrail.values.events import SubagentStart as SubagentStart
    from agentrail.values.events import ThinkingDelta as ThinkingDelta
    from agentrail.values.events import ThinkingStart as ThinkingStart
    from agentrail.values.events import TitleGenerated as TitleGenerated
    from agentrail.values.events import TodoChange as TodoChange
    from agentrail.values.events import ToolAbandoned as ToolAbandoned
    from agentrail.values.events import ToolApprovedAlways as ToolApprovedAlways
    from agentrail.values.events import ToolAttached as ToolAttached
    from agentrail.values.events import ToolBlocked as ToolBlocked
    from agentrail.values.events import ToolCalls as ToolCalls
    from agentrail.values.events import ToolCallUnknown as ToolCallUnknown
    from agentrail.values.events import ToolDetached as ToolDetached
    from agentrail.values.events import ToolExecutionEnd as ToolExecutionEnd
    from agentrail.values.events import ToolExecutionMetrics as ToolExecutionMetrics
    from agentrail.values.events import ToolExecutionStart as ToolExecutionStart
    from agentrail.values.events import ToolExecutionUpdate as ToolExecutionUpdate
    from agentrail.values.events import ToolKilled as ToolKilled
    from agentrail.values.events import ToolSkippedForSteering as ToolSkippedForSteering
    from agentrail.values.events import ToolsUpdated as ToolsUpdated
    from agentrail.values.events import ToolUnknown as ToolUnknown
    from agentrail.values.events import UnknownEvent as UnknownEvent
    from agentrail.values.events import UserResponded as UserResponded

_HOMES = {
    "AbortPending": "agentrail.values.events",
    "AgentAbort": "agentrail.values.events",
    "AgentEnd": "agentrail.values.events",
    "AgentResumed": "agentrail.values.events",
    "AgentStart": "agentrail.values.events",
    "AnyEvent": "agentrail.values.events",
    "ApprovalRequired": "agentrail.values.events",
    "ApprovalResolved": "agentrail.values.events",
    "AskAnswered": "agentrail.values.events",
    "AskStarted": "agentrail.values.events",
    "AskUser": "agentrail.values.events",
    "BeforeCompact": "agentrail.values.events",
    "CompactEnd": "agentrail.values.events",
    "CompactStart": "agentrail.values.events",
    "ContentPolicyViolated": "agentrail.values.events",
    "ContextOverflow": "agentrail.values.events",
    "Cursor": "agentrail.values.events",
    "EVENTS": "agentrail.values.events",
    "Envelope": "agentrail.values.events",
    "Ephemeral": "agentrail.values.events",
    "Event": "agentrail.values.events",
    "Gap": "agentrail.values.events",
    "Heartbeat": "agentrail.values.events",
    "InputQuarantined": "agentrail.values.events",
    "Intervention": "agentrail.values.events",
    "LargeResultOffloaded": "agentrail.values.events",
    "LoopDetected": "agentrail.values.events",
    "MemoryFlushed": "agentrail.values.events",
    "MessageDelta": "agentrail.values.events",
    "MessageStart": "agentrail.values.events",
    "ModelEffective": "agentrail.values.events",
    "ModelSwitched": "agentrail.values.events",
    "PlanGenerated": "agentrail.values.events",
    "PlanStepCompleted": "agentrail.values.events",
    "PluginAttached": "agentrail.values.events",
    "PluginDetached": "agentrail.values.events",
    "PluginError": "agentrail.values.events",
    "PluginEvent": "agentrail.values.events",
    "PluginOptsUpdated": "agentrail.values.events",
    "PluginSlow": "agentrail.values.events",
    "PluginUpgraded": "agentrail.values.events",
    "PromptDropped": "agentrail.values.events",
    "PromptQueued": "agentrail.values.events",
    "PromptReceived": "agentrail.values.events",
    "PromptRejected": "agentrail.values.events",
    "PromptWithdrawn": "agentrail.values.events",
    "RequestStart": "agentrail.values.events",
    "ResponseComplete": "agentrail.values.events",
    "Retry": "agentrail.values.events",
    "SecurityAudit": "agentrail.values.events",
    "SessionEnded": "agentrail.values.events",
    "SessionForked": "agentrail.values.events",
    "SessionHibernated": "agentrail.values.events",
    "SessionQuarantined": "agentrail.values.events",
    "SessionRecovered": "agentrail.values.events",
    "SessionRestarted": "agentrail.values.events",
    "SessionStarted": "agentrail.values.events",
    "SessionWoken": "agentrail.values.events",
    "StatusUpdate": "agentrail.values.events",
    "SteeringApplied": "agentrail.values.events",
    "SteeringReceived": "agentrail.values.events",
    "StreamError": "agentrail.values.events",
    "StreamStalled": "agentrail.values.events",
    "SubAgentEvent": "agentrail.values.events",
    "SubagentEnd": "agentrail.values.events",
    "SubagentStart": "agentrail.values.events",
    "ThinkingDelta": "agentrail.values.events",
    "ThinkingStart": "agentrail.values.events",
    "TitleGenerated": "agentrail.values.events",
    "TodoChange": "agentrail.values.events",
    "ToolAbandoned": "agentrail.values.events",
    "ToolApprovedAlways": "agentrail.values.events",
    "ToolAttached": "agentrail.values.events",
    "ToolBlocked": "agentrail.values.events",
    "ToolCallUnknown": "agentrail.values.events",
    "ToolCalls": "agentrail.values.events",
    "ToolDetached": "agentrail.values.events",
    "ToolExecutionEnd": "agentrail.values.events",
    "ToolExecutionMetrics": "agentrail.values.events",
    "ToolExecutionStart": "agentrail.values.events",
    "ToolExecutionUpdate": "agentrail.values.events",
    "ToolKilled": "agentrail.values.events",
    "ToolSkippedForSteering": "agentrail.values.events",
    "ToolUnknown": "agentrail.values.events",
    "ToolsUpdated": "agentrail.values.events",
    "UnknownEvent": "agentrail.values.events",
    "UserResponded": "agentrail.values.events",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the list of homes is the list of names
__getattr__, __dir__ = lazily(__name__, _HOMES)

"""Everything that a session reports: one frozen class per event, in a closed union.

The modules of the events are imported on first use: a program that needs one event does not load all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrail.values.events.catalogue import EVENTS as EVENTS
    from agentrail.values.events.catalogue import AbortPending as AbortPending
    from agentrail.values.events.catalogue import AgentAbort as AgentAbort
    from agentrail.values.events.catalogue import AgentEnd as AgentEnd
    from agentrail.values.events.catalogue import AgentResumed as AgentResumed
    from agentrail.values.events.catalogue import AgentStart as AgentStart
    from agentrail.values.events.catalogue import AnyEvent as AnyEvent
    from agentrail.values.events.catalogue import ApprovalRequired as ApprovalRequired
    from agentrail.values.events.catalogue import ApprovalResolved as ApprovalResolved
    from agentrail.values.events.catalogue import AskAnswered as AskAnswered
    from agentrail.values.events.catalogue import AskStarted as AskStarted
    from agentrail.values.events.catalogue import AskUser as AskUser
    from agentrail.values.events.catalogue import BeforeCompact as BeforeCompact
    from agentrail.values.events.catalogue import CompactEnd as CompactEnd
    from agentrail.values.events.catalogue import CompactStart as CompactStart
    from agentrail.values.events.catalogue import ContentPolicyViolated as ContentPolicyViolated
    from agentrail.values.events.catalogue import ContextOverflow as ContextOverflow
    from agentrail.values.events.catalogue import Cursor as Cursor
    from agentrail.values.events.catalogue import Envelope as Envelope
    from agentrail.values.events.catalogue import Ephemeral as Ephemeral
    from agentrail.values.events.catalogue import Event as Event
    from agentrail.values.events.catalogue import Gap as Gap
    from agentrail.values.events.catalogue import Heartbeat as Heartbeat
    from agentrail.values.events.catalogue import InputQuarantined as InputQuarantined
    from agentrail.values.events.catalogue import Intervention as Intervention
    from agentrail.values.events.catalogue import LargeResultOffloaded as LargeResultOffloaded
    from agentrail.values.events.catalogue import LoopDetected as LoopDetected
    from agentrail.values.events.catalogue import MemoryFlushed as MemoryFlushed
    from agentrail.values.events.catalogue import MessageDelta as MessageDelta
    from agentrail.values.events.catalogue import MessageStart as MessageStart
    from agentrail.values.events.catalogue import ModelEffective as ModelEffective
    from agentrail.values.events.catalogue import ModelSwitched as ModelSwitched
    from agentrail.values.events.catalogue import PlanGenerated as PlanGenerated
    from agentrail.values.events.catalogue import PlanStepCompleted as PlanStepCompleted
    from agentrail.values.events.catalogue import PluginAttached as PluginAttached
    from agentrail.values.events.catalogue import PluginDetached as PluginDetached
    from agentrail.values.events.catalogue import PluginError as PluginError
    from agentrail.values.events.catalogue import PluginEvent as PluginEvent
    from agentrail.values.events.catalogue import PluginOptsUpdated as PluginOptsUpdated
    from agentrail.values.events.catalogue import PluginSlow as PluginSlow
    from agentrail.values.events.catalogue import PluginUpgraded as PluginUpgraded
    from agentrail.values.events.catalogue import PromptDropped as PromptDropped
    from agentrail.values.events.catalogue import PromptQueued as PromptQueued
    from agentrail.values.events.catalogue import PromptReceived as PromptReceived
    from agentrail.values.events.catalogue import PromptRejected as PromptRejected
    from agentrail.values.events.catalogue import PromptWithdrawn as PromptWithdrawn
    from agentrail.values.events.catalogue import RequestStart as RequestStart
    from agentrail.values.events.catalogue import ResponseComplete as ResponseComplete
    from agentrail.values.events.catalogue import Retry as Retry
    from agentrail.values.events.catalogue import SecurityAudit as SecurityAudit
    from agentrail.values.events.catalogue import SessionEnded as SessionEnded
    from agentrail.values.events.catalogue import SessionForked as SessionForked
    from agentrail.values.events.catalogue import SessionHibernated as SessionHibernated
    from agentrail.values.events.catalogue import SessionQuarantined as SessionQuarantined
    from agentrail.values.events.catalogue import SessionRecovered as SessionRecovered
    from agentrail.values.events.catalogue import SessionRestarted as SessionRestarted
    from agentrail.values.events.catalogue import SessionStarted as SessionStarted
    from agentrail.values.events.catalogue import SessionWoken as SessionWoken
    from agentrail.values.events.catalogue import StatusUpdate as StatusUpdate
    from agentrail.values.events.catalogue import SteeringApplied as SteeringApplied
    from agentrail.values.events.catalogue import SteeringReceived as SteeringReceived
    from agentrail.values.events.catalogue import StreamError as StreamError
    from agentrail.values.events.catalogue import StreamStalled as StreamStalled
    from agentrail.values.events.catalogue import SubagentEnd as SubagentEnd
    from agentrail.values.events.catalogue import SubAgentEvent as SubAgentEvent
    from agentrail.values.events.catalogue import SubagentStart as SubagentStart
    from agentrail.values.events.catalogue import ThinkingDelta as ThinkingDelta
    from agentrail.values.events.catalogue import ThinkingStart as ThinkingStart
    from agentrail.values.events.catalogue import TitleGenerated as TitleGenerated
    from agentrail.values.events.catalogue import TodoChange as TodoChange
    from agentrail.values.events.catalogue import ToolAbandoned as ToolAbandoned
    from agentrail.values.events.catalogue import ToolApprovedAlways as ToolApprovedAlways
    from agentrail.values.events.catalogue import ToolAttached as ToolAttached
    from agentrail.values.events.catalogue import ToolBlocked as ToolBlocked
    from agentrail.values.events.catalogue import ToolCalls as ToolCalls
    from agentrail.values.events.catalogue import ToolCallUnknown as ToolCallUnknown
    from agentrail.values.events.catalogue import ToolDetached as ToolDetached
    from agentrail.values.events.catalogue import ToolExecutionEnd as ToolExecutionEnd
    from agentrail.values.events.catalogue import ToolExecutionMetrics as ToolExecutionMetrics
    from agentrail.values.events.catalogue import ToolExecutionStart as ToolExecutionStart
    from agentrail.values.events.catalogue import ToolExecutionUpdate as ToolExecutionUpdate
    from agentrail.values.events.catalogue import ToolKilled as ToolKilled
    from agentrail.values.events.catalogue import ToolSkippedForSteering as ToolSkippedForSteering
    from agentrail.values.events.catalogue import ToolsUpdated as ToolsUpdated
    from agentrail.values.events.catalogue import ToolUnknown as ToolUnknown
    from agentrail.values.events.catalogue import UnknownEvent as UnknownEvent
    from agentrail.values.events.catalogue import UserResponded as UserResponded


def __getattr__(name: str) -> object:
    """Import an event class from the catalogue on first use."""
    found: object = getattr(import_module("agentrail.values.events.catalogue"), name)
    globals()[name] = found
    return found

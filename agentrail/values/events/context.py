"""Events of context, plans and memory."""

from __future__ import annotations

from typing import TypeAlias

from agentrail.values.events.envelope import Ephemeral, Event
from agentrail.values.personal import Kept, Personal, ToolName
from agentrail.values.usage import ContextUsage


class BeforeCompact(Event):
    """The context is about to be compacted; plugins are asked first."""

    messages: int
    """Number of messages in the context."""
    reason: Personal[str]
    """Why the context is to be compacted."""


class CompactStart(Event):
    """The compaction has started."""

    messages: int
    """Number of messages to compact."""
    reason: Personal[str] = ""
    """Why the context is compacted."""
    tokens: int = 0
    """About how many tokens the context takes."""
    window: int = 0
    """Tokens that the model can read, or is assumed to."""


class CompactEnd(Event):
    """The compaction has ended."""

    removed: int
    """Number of messages removed; 0 if nothing changed."""
    note: Personal[str]
    """What was done, in words."""
    crowded: ContextUsage | None = None
    """What takes the space, if the context is still fuller than `compact_to`; `None` if it is not, or is unchanged."""


class PrefixChanged(Ephemeral):
    """A request does not begin with the last one, so the provider reads again what it had in its prompt cache.

    It is derived from the two requests for those who subscribe, and is not stored; `seen` derives it from the records.
    """

    part: Kept[str]
    """What changed first: `model`, `options`, `returns`, `tool`, `environment`, `skills`, `memory`, `tool_choice` or
    `messages`.
    """
    name: Kept[str]
    """Name of the model, of the options that changed, the tool or the section.

    For messages it is `compaction` or `replaced`; or `front` if it is what plugins add before them; or `marks` if they
    are the same, but so many blocks were added that the provider does not find them from the one cache mark that the
    option `cache` allows. For the form of the answer it is `returns`; or `refused` if the provider has refused its
    schema, so that a tool takes its place, and `accepted` if the schema is taken again. For what may be called it is
    `max_rounds`, around the last request of a turn, or the option `tool_choice`.
    """
    by: Kept[str]
    """Key of the plugin, or name of the source of tools, that changed it; empty if a caller or the session did.

    After a compaction, what caused it: `compact_at`, `overflow`, `caller` or the name of a tool; or the key of the
    plugin that replaced the messages to compact.
    """
    tokens: int
    """Estimate of the tokens that the provider has read before and reads again, at the most."""


class Intervention(Event):
    """Plugins added a text to the conversation."""

    text: Personal[str]
    """The text, as the model sees it."""
    hook: Kept[str]
    """Name of the hook at which the plugins added the text."""
    applied: bool = True
    """False if the turn had reached its limit, so that the model never sees the text."""


class PlanGenerated(Event):
    """A plugin made a plan."""

    steps: Personal[tuple[str, ...]]
    """Steps of the plan, in order."""


class PlanStepCompleted(Event):
    """A step of the plan is done."""

    index: int
    """Number of the step, from 0."""
    text: Personal[str]
    """Text of the step."""


class MemoryFlushed(Event):
    """Facts were written to memory."""

    facts: Personal[tuple[str, ...]]
    """The facts that were written to memory."""
    count: int
    """Number of facts."""


class ContentPolicyViolated(Event):
    """A plugin that judges content found a violation of a policy."""

    summary: Personal[str]
    """What the plugin found, in words."""
    policies: Kept[tuple[str, ...]]
    """Names of the policies."""


class SecurityAudit(Event):
    """A security plugin blocked or held a call."""

    call_id: Kept[str]
    """Id of the call."""
    tool: ToolName
    """Name of the tool."""
    decision: Kept[str]
    """`blocked` or `held`."""
    reason: Personal[str]
    """Reason that the plugin gave."""


AnyContextEvent: TypeAlias = (
    BeforeCompact
    | CompactEnd
    | CompactStart
    | ContentPolicyViolated
    | Intervention
    | MemoryFlushed
    | PlanGenerated
    | PlanStepCompleted
    | PrefixChanged
    | SecurityAudit
)
"""The events of this module, in the order of the catalogue."""

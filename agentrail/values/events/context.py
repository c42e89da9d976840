"""Events of context, plans and memory."""

from __future__ import annotations

from agentrail.values.events.envelope import Event
from agentrail.values.value import value


@value
class BeforeCompact(Event):
    """The context is about to be compacted."""

    messages: int
    """How many messages it holds."""
    reason: str
    """Why."""


@value
class CompactStart(Event):
    """Compaction runs."""

    messages: int
    """How many messages it was given."""


@value
class CompactEnd(Event):
    """Compaction is over."""

    removed: int
    """How many messages went; 0: nothing changed."""
    note: str
    """What was done, in words."""


@value
class Intervention(Event):
    """Plugins put a text into the conversation."""

    text: str
    """The text."""
    hook: str
    """At which hook."""
    applied: bool = True
    """False: the turn was at its last answer, so nobody will read it."""


@value
class PlanGenerated(Event):
    """A plan was made."""

    steps: tuple[str, ...]
    """Its steps."""


@value
class PlanStepCompleted(Event):
    """A step of the plan is done."""

    index: int
    """Which step, from 0."""
    text: str
    """The step."""


@value
class MemoryFlushed(Event):
    """Facts were written to memory."""

    facts: tuple[str, ...]
    """Which."""
    count: int
    """How many."""


@value
class ContentPolicyViolated(Event):
    """A judge found a violation of policy."""

    summary: str
    """What it found."""
    policies: tuple[str, ...]
    """Which policies."""


@value
class SecurityAudit(Event):
    """A guard ruled on a call."""

    call_id: str
    """Which call."""
    tool: str
    """Which tool."""
    decision: str
    """`blocked` or `held`."""
    reason: str
    """Why."""

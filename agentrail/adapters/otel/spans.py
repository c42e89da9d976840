"""Spans of turns, requests and tool calls, as values, and their ids. Nothing here knows the SDK of OpenTelemetry.

Ids are digests of what a span is about and when that began. Whoever folds the same records gets the same ids.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from agentrail.values.content import Part
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.messages import AssistantMessage
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Value

SPAN_BYTES = 8
TRACE_BYTES = 16


class SpanRef(NamedTuple):
    """Ids by which a span is known to others."""

    trace_id: int
    """Id of the trace: one for a turn, with all that it started."""
    span_id: int
    """Id of the span in it."""


class SpanNote(NamedTuple):
    """Something that happened at one moment in the time of a span (an event, in OpenTelemetry)."""

    name: str
    """What happened."""
    at: int
    """When it happened, in milliseconds since 1970."""


class Ancestors(NamedTuple):
    """The spans from which a sub-agent was started."""

    call: SpanRef
    """Span of the call that started it: the parent of its turns."""
    turn: SpanRef
    """Span of the turn with that call, to which its turns are linked."""
    agent: str
    """Name of the sub-agent's kind."""


class Span(Value, kw_only=True):
    """What turns, requests and calls have in common; while a span is open, `end` is 0."""

    ref: SpanRef
    """Ids of the span."""
    parent: SpanRef | None
    """Ids of its parent; `None` if it is the root of its trace."""
    session_id: str
    """Session of the span."""
    agent: str
    """Name of the session's specification, or of the sub-agent's kind; empty if it has none."""
    tenant: str
    """Tenant of the session; empty if none was given."""
    start: int
    """When it began, in milliseconds since 1970."""
    end: int = 0
    """When it ended, in milliseconds since 1970; 0 while it is open."""
    error: str = ""
    """Kind of error with which it ended; empty if with none. Never the text of an error, which may be personal."""
    is_interrupted: bool = False
    """Whether the process ended while the span was open. What goes on afterwards is a span with a link to this one."""
    links: tuple[SpanRef, ...] = ()
    """Spans that it belongs to without being their child."""
    notes: tuple[SpanNote, ...] = ()
    """What happened in its time."""


class TurnSpan(Span, kw_only=True):
    """A turn, or the part of it that ran in one process."""

    turn: int
    """Number of the turn in its session."""
    model: str = ""
    """Name of the model of its last request; empty before the first one."""
    outcome: str = ""
    """`reason` of `AgentEnd`, or `aborted`; empty while it is open, or if it was interrupted."""
    abort_kind: str = ""
    """`kind` of `AgentAbort`; empty if it was not aborted."""
    usage: Usage = NOTHING_USED
    """Usage of the turn and of its sub-agents, if it finished."""
    prompt: str = ""
    """Content: the prompt's text."""
    answer: str = ""
    """Content: the text of its last response."""


class RequestSpan(Span, kw_only=True):
    """One attempt at a response of the model."""

    request_id: str
    """Id of the request."""
    model: str
    """Name of the model."""
    round: int
    """Number of the round in the turn."""
    attempt: int
    """Number of the attempt, from 1."""
    message: AssistantMessage | None = None
    """The response, with its usage; `None` if there is none."""
    first_chunk_ms: int | None = None
    """Milliseconds from the sending of the request to the first chunk of the response; `None` if it is not known."""
    is_cut: bool = False
    """Whether the response was not waited for any more, because of steering or an abort."""


class CallSpan(Span, kw_only=True):
    """A tool call: from when it was held, or else from its start, to its result."""

    call_id: str
    """Id of the call, or of the plugin's request for a tool."""
    tool: str
    """Name of the tool."""
    turn: SpanRef
    """Span of the turn that the call is part of."""
    attempts: int = 0
    """How many attempts were started; 0 if it never ran."""
    held_since: int | None = None
    """Since when a person has to decide about it, or answer it, in milliseconds since 1970; `None` if nobody has to."""
    approval_id: str = ""
    """Id of the approval or question that it waits for, or waited for last; empty if there was none."""
    was_held: bool = False
    """Whether it waited for a person."""
    held_ms: int = 0
    """For how many milliseconds it did."""
    approval: str = ""
    """`status` of the last `ApprovalResolved`; empty if there was none."""
    subagent: str = ""
    """Session id of the sub-agent that it started; empty if it started none."""
    is_late: bool = False
    """Whether its turn no longer waited for it."""
    args: JsonObject = EMPTY
    """Content: the arguments."""
    result: tuple[Part, ...] = ()
    """Content: the result, as the tool returned it."""


def digest(size: int, *words: str) -> int:
    """Return a number of *size* bytes, never 0, that depends on nothing but *words*."""
    text = "".join([f"{len(word)}:{word}" for word in words])
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()) or 1


def trace_id_of(session_id: str, ref: str, started_at: int) -> int:
    """Return the id of the trace of the turn of the prompt *ref*.

    *started_at* is when the turn began, which tells sessions apart that have had the same id.
    """
    return digest(TRACE_BYTES, "turn", session_id, ref, str(started_at))


def span_id_of(kind: str, session_id: str, ref: str, number: int, start: int) -> int:
    """Return the id of the span of a turn, request or call *ref*, which began with record *number* at *start*."""
    return digest(SPAN_BYTES, kind, session_id, ref, str(number), str(start))

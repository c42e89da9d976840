"""What a `Transcript` tells of an event, as a host sends it: without what its client was told before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

from agentrail.api.transcript import (
    CallChanged,
    CallEnded,
    CallState,
    Change,
    CutOff,
    OfSubagent,
    ResponseEnded,
    SteeringRead,
    Voided,
    thoughts_in,
)
from agentrail.api.views import View
from agentrail.values import events as e
from agentrail.values.content import Part
from agentrail.values.events import AnyEvent
from agentrail.values.json import JsonObject
from agentrail.values.value import TAG

EndOfCall: TypeAlias = (
    e.ApprovalResolved
    | e.ToolBlocked
    | e.ToolCallUnknown
    | e.ToolExecutionEnd
    | e.ToolKilled
    | e.ToolSkippedForSteering
    | e.ToolUnknown
)
"""Events that end one call."""


class ChangesView(View):
    """What one event changes for a person who sees the conversation."""

    at: int
    """When it happened, in milliseconds since 1970."""
    by: str
    """Who gave the command that it comes from; empty if nobody said so."""
    changes: tuple[AnyChange, ...]
    """The changes, in order: events, and those below; `$` names each, without `View`."""


class SteeringReadView(View, tag_field=TAG, tag="SteeringRead"):
    """The model reads texts of steering now."""

    refs: tuple[str, ...]
    """Their ids."""


class ResponseEndedView(View, tag_field=TAG, tag="ResponseEnded"):
    """A response is complete; its calls follow."""

    text: str
    """All of its text, in place of what its deltas have told."""
    thoughts: str
    """All of its thoughts; empty if it has none that are shown."""


class VoidedView(View, tag_field=TAG, tag="Voided"):
    """The response under way has failed, and the model is asked again: nothing of it counts."""


class CutOffView(View, tag_field=TAG, tag="CutOff"):
    """The response under way was cut off: what was told of it stays."""

    is_heard: bool
    """Whether all of its deltas were told."""


class CallChangedView(View, tag_field=TAG, tag="CallChanged"):
    """A call was announced, waits for a person, or has started."""

    call_id: str
    """Id of the call: unique in its session, but not among that session and its sub-agents."""
    name: str
    """Name of the tool."""
    args: JsonObject | None
    """The arguments; null if they were not heard."""
    state: CallState
    """What has become of it."""
    hint: str
    """What a person should know before deciding about it; else empty."""


class CallEndedView(View, tag_field=TAG, tag="CallEnded"):
    """A call has ended; or the result of one that has ended before is known now."""

    call_id: str
    """Id of the call, which was told of before."""
    state: CallState
    """What has become of it."""
    content: tuple[Part, ...] | None
    """The result; null if it is not known, or not yet."""
    cause: EndOfCall | None
    """The event that tells it, without the result; null if that is about more than this call."""


class OfSubagentView(View, tag_field=TAG, tag="OfSubagent"):
    """A change in the conversation of a sub-agent."""

    call_id: str
    """Id of the call that has started it."""
    child: str
    """Its session id; empty if that was not heard."""
    change: AnyChange
    """What has changed there."""


AnyChange: TypeAlias = (
    AnyEvent
    | SteeringReadView
    | ResponseEndedView
    | VoidedView
    | CutOffView
    | CallChangedView
    | CallEndedView
    | OfSubagentView
)
"""A change; events that are not folded are changes themselves."""


def changes_view(envelope: e.Envelope, changes: Iterable[Change]) -> ChangesView:
    """Return what the event in *envelope* changes."""
    return ChangesView(envelope.at, envelope.by, tuple([_change_view(change, envelope.event) for change in changes]))


def _change_view(change: Change, event: e.Event) -> AnyChange:
    """Return a change that *event* tells, or for a change of a sub-agent the event in it."""
    inner = event.event if isinstance(event, e.SubAgentEvent) else event
    match change:
        case SteeringRead(refs=refs):
            return SteeringReadView(refs)
        case ResponseEnded(message=message):
            return ResponseEndedView(message.text, thoughts_in(message))
        case Voided():
            return VoidedView()
        case CutOff(is_heard=is_heard):
            return CutOffView(is_heard)
        case CallChanged(call=call):
            hint = inner.hint if isinstance(inner, e.ApprovalRequired) else ""
            return CallChangedView(call.call_id, call.name, call.args, call.state, hint)
        case CallEnded(call=call, content=content, cause=cause):
            end = cause.but(content=()) if isinstance(cause, e.ToolExecutionEnd) else cause
            result = None if content is None else tuple(content)
            return CallEndedView(call.call_id, call.state, result, end if isinstance(end, EndOfCall) else None)
        case OfSubagent(call_id=call_id, child=child, change=within):
            return OfSubagentView(call_id, child, _change_view(within, inner))
        case e.Event():
            return cast("AnyEvent", change)

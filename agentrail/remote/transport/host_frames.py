"""Reads the messages that a host sends over `WS /v1/ws`; `socket_frames` writes them.

Fields and kinds of messages that are not known are passed over: the host may be newer than the client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, cast

import msgspec

from agentrail.api.sse_frames import read_cursor
from agentrail.errors import BadText
from agentrail.values.events.envelope import Cursor
from agentrail.values.json import Json, JsonObject
from agentrail.values.value import Value, learned


class AnswerFrame(Value):
    """The answer to a call."""

    id: str
    """Id of the call."""
    body: Json
    """What the call gives; `None` if it gives nothing."""


class RefusalFrame(Value):
    """A call failed, a subscription ended by an error, or a message of the client could not be read."""

    id: str
    """Id of the call or subscription; empty if the host could not read it."""
    problem: JsonObject
    """The problem document."""


class BegunFrame(Value):
    """A subscription to events has begun."""

    id: str
    """Id of the subscription."""
    cursor: Cursor
    """The events after it follow."""


class EventFrame(Value):
    """An event of a session."""

    id: str
    """Id of the subscription."""
    cursor: Cursor
    """The place of the event, to continue from."""
    event: str
    """Name of its class."""
    data: Json
    """Its envelope, as JSON."""


class GapFrame(Value):
    """Ephemeral events, or with the policy `drop` any events, are missing here."""

    id: str
    """Id of the subscription."""
    start: Cursor
    """The last event before them."""
    end: Cursor
    """The last of them."""


class ViewFrame(Value):
    """A view as it is now, whole."""

    id: str
    """Id of the subscription."""
    data: Json
    """The view."""


class ChangesFrame(Value):
    """Rows of the tree that have changed."""

    id: str
    """Id of the subscription."""
    data: Json
    """The rows, by their session, and how many there are."""


class EndedFrame(Value):
    """A subscription came to its end: its session has ended."""

    id: str
    """Id of the subscription."""


HostFrame: TypeAlias = (
    AnswerFrame | RefusalFrame | BegunFrame | EventFrame | GapFrame | ViewFrame | ChangesFrame | EndedFrame
)
"""A message of a host."""


class _AnyFrame(msgspec.Struct):
    """The fields of all messages of a host, to decode one in one pass."""

    id: str = ""
    status: int | None = None
    body: object = None
    problem: dict[str, object] | None = None
    cursor: str | None = None
    event: str | None = None
    data: object = msgspec.UNSET
    changed: dict[str, object] | None = None
    matching: int = 0
    total: int = 0
    first: bool = False
    gap: dict[str, str] | None = None
    end: bool = False


_decode: Final = cast("Callable[[str], _AnyFrame]", msgspec.json.Decoder(learned(_AnyFrame)).decode)
_NO_CURSOR: Final = "has a cursor that is none"


def read_host_frame(text: str) -> HostFrame | None:
    """Parse *text*; return its message, or `None` if it is of an unknown kind. Raise `BadText` if it is invalid."""
    try:
        frame = _decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as why:
        raise BadText(str(why)) from None
    if frame.problem is not None:
        return RefusalFrame(frame.id, cast("JsonObject", frame.problem))
    if frame.status is not None:
        return AnswerFrame(frame.id, cast("Json", frame.body))
    if frame.cursor is not None:
        cursor = _cursor(frame.cursor)
        if frame.event is None:
            return BegunFrame(frame.id, cursor)
        return EventFrame(frame.id, cursor, frame.event, cast("Json", frame.data))
    if frame.gap is not None:
        return GapFrame(frame.id, _cursor(frame.gap.get("from", "")), _cursor(frame.gap.get("to", "")))
    if frame.changed is not None:
        changes = {"changed": frame.changed, "matching": frame.matching, "total": frame.total, "first": frame.first}
        return ChangesFrame(frame.id, cast("Json", changes))
    if frame.data is not msgspec.UNSET:
        return ViewFrame(frame.id, cast("Json", frame.data))
    return EndedFrame(frame.id) if frame.end else None


def _cursor(text: str) -> Cursor:
    cursor = read_cursor(text)
    if cursor is None:
        raise BadText(_NO_CURSOR)
    return cursor

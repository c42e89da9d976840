"""Frames of server-sent events: an event of a session, a gap, a heartbeat, and the cursor to continue from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, cast

from agentrail.api.public_ids import KEPT, visible
from agentrail.api.views import to_json
from agentrail.values.events.catalogue import EVENTS
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.life import SessionForked
from agentrail.values.events.people import ApprovalRequired, ApprovalResolved, AskUser, ResultRequired, UserResponded
from agentrail.values.events.plugins import Gap
from agentrail.values.events.tools import SubagentEnd, SubAgentEvent, SubagentStart

MEDIA_TYPE: Final = "text/event-stream"

HEARTBEAT: Final = b":\n\n"
"""A comment, which clients do not see: it keeps what is between from closing the connection."""

GAP: Final = "gap"
"""Name of the frame that says that events are missing here, and up to which cursor."""

REPLY: Final = "reply"
"""Name of the last frame of `POST /v1/stream`: how the turn ended."""

PROBLEM: Final = "problem"
"""Name of the last frame of a stream that ends by an error: a problem document."""

WITH_SESSION: Final[Mapping[type[Event], tuple[str, ...]]] = MappingProxyType(
    {
        ApprovalRequired: ("approval_id", "path"),
        ApprovalResolved: ("approval_id",),
        AskUser: ("ref", "path"),
        ResultRequired: ("ref", "path"),
        SessionForked: ("origin",),
        SubAgentEvent: ("child",),
        SubagentEnd: ("child",),
        SubagentStart: ("child",),
        UserResponded: ("ref",),
    }
)
"""Fields of events that have ids of sessions, or ids that begin with one."""

_PLAIN_NAMES: Final[Mapping[type[Event], bytes]] = MappingProxyType(
    {kind: kind.__name__.encode() for kind in EVENTS if kind not in WITH_SESSION and kind is not Gap}
)
"""The names of events, by class, whose fields clients see as they are."""

_PLAIN_FRAME: Final = (
    b'id: %d.%d\nevent: %b\ndata: {"session_id":%b,"seq":%d,"n":%d,"at":%d,"turn":%d,"round":%d,"event":%b}\n\n'
)
"""The frame of such an event, without a copy of its envelope, which costs more than all else of a frame."""

MAX_DIGITS: Final = 18
"""The most digits of each number of a cursor."""

_DATA: Final = b"\ndata: "
_CURSOR: Final = re.compile(
    rf"(0|[1-9][0-9]{{0,{MAX_DIGITS - 1}}})(?:\.(0|[1-9][0-9]{{0,{MAX_DIGITS - 1}}}))?", re.ASCII
)


def read_cursor(text: str) -> Cursor | None:
    """Return the cursor that `str` has written as *text*, or one of a durable event by its number; `None` if none."""
    match = _CURSOR.fullmatch(text)
    return None if match is None else Cursor(int(match[1]), int(match[2] or 0))


def event_frame(envelope: Envelope) -> bytes:
    """Return the frame of an event. A gap has no id: the client keeps the one before it."""
    event = envelope.event
    name = _PLAIN_NAMES.get(type(event))
    if name is not None and not envelope.path and not envelope.by:  # most events, for speed
        seq, n, session = envelope.seq, envelope.n, _session_json(envelope.session_id)
        position = seq, n, envelope.at, envelope.turn, envelope.round
        return _PLAIN_FRAME % (seq, n, name, session, *position, to_json(event))
    if type(event) is Gap:
        data = {"from": str(Cursor(event.from_seq, event.from_n)), "to": str(Cursor(event.to_seq, event.to_n))}
        return frame(GAP, to_json(data))
    return frame(type(event).__name__, to_json(as_seen(envelope)), envelope.cursor)


def frame(name: str, data: bytes, cursor: Cursor | None = None) -> bytes:
    """Return a frame with *data*, JSON text without line breaks; *cursor* is what the client continues from."""
    head = "" if cursor is None else f"id: {cursor.seq}.{cursor.n}\n"
    return f"{head}event: {name}\ndata: ".encode() + data + b"\n\n"


def data_of(frame_bytes: bytes) -> bytes:
    """Return the data in *frame_bytes*, which `frame` has made."""
    return frame_bytes[frame_bytes.index(_DATA) + len(_DATA) : -2]


@lru_cache(KEPT)
def _session_json(session_id: str) -> bytes:
    """Return an id in the journal as JSON, as clients see it."""
    return to_json(visible(session_id))


def as_seen(envelope: Envelope) -> Envelope:
    """Return *envelope* with the ids of sessions as clients see them."""
    return envelope.but(
        session_id=visible(envelope.session_id),
        path=tuple(map(visible, envelope.path)),
        event=_with_public_ids(envelope.event),
    )


def _visible(ids: object) -> object:
    return visible(ids) if isinstance(ids, str) else tuple(map(visible, cast("tuple[str, ...]", ids)))


def _with_public_ids(event: Event) -> Event:
    names = WITH_SESSION.get(type(event))
    if names is None:
        return event
    changes = {name: _visible(getattr(event, name)) for name in names}
    if isinstance(event, SubAgentEvent):
        changes["event"] = _with_public_ids(event.event)
    return event.but(**changes)

"""`SseFrame`: a frame of a stream of events that a host has written, read back by another part of a host."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from agentrail.api.sse_frames import GAP, read_cursor
from agentrail.codec.values import read_of_host
from agentrail.errors import BadData
from agentrail.runtime.events.replay import gap_between
from agentrail.values.events.envelope import Envelope

FIELDS: Final = ("id", "event", "data")


class SseFrame(NamedTuple):
    """A frame of a stream of events."""

    id: str
    """The cursor after it; empty if it has none."""
    event: str
    """Name of the event; empty if it has none."""
    data: str
    """Its data."""


def frame_in(text: bytes) -> SseFrame | None:
    """Return the frame that *text* is; `None` for a comment."""
    lines = [line.partition(": ") for line in text.decode(errors="replace").split("\n") if not line.startswith(":")]
    fields = {name: value for name, _, value in lines}
    return SseFrame(*[fields.get(name, "") for name in FIELDS]) if any(fields.values()) else None


def envelope_in(frame: SseFrame, session: str) -> Envelope | None:
    """Return the event of *session* in *frame*, or the mark that some are missing; `None` if it is neither."""
    with suppress(BadData, msgspec.DecodeError, KeyError):
        if frame.event != GAP:
            return read_of_host(Envelope, frame.data.encode())
        ends = msgspec.json.decode(frame.data, type=dict[str, object])
        start, end = read_cursor(str(ends["from"])), read_cursor(str(ends["to"]))
        if start is not None and end is not None:
            return gap_between(session, start, end)
    return None

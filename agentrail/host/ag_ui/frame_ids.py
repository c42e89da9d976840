"""`FrameId`: the id of a frame, from which a client goes on after its connection was cut."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from agentrail.api.ag_ui_bodies import FRAME_ID
from agentrail.values.events.envelope import Cursor

_FRAME_ID: Final = re.compile(FRAME_ID.removeprefix("^").removesuffix("$"), re.ASCII)


class FrameId(NamedTuple):
    """The id of a frame: the place of its event in the journal, and what the client has after it."""

    cursor: Cursor
    """Position after the event that the frame tells of, or after which the run begins."""
    number: int
    """Number of the frame, from 1: among those of the event, or with which the run begins, or ends."""
    stage: str = ""
    """`o` for a frame with which the run begins, `e` for one with which it ends, and empty for one of an event."""
    ref: str = ""
    """Id of the prompt whose turn ends the run; empty if the run goes on for as long as the session works."""
    open_message: str = ""
    """The message that is open after the frame: `t` (text) or `r` (reasoning), and its id; empty if none is.

    A host that was killed no longer knows what it has streamed of a response: so the client tells.
    """
    owes_snapshot: bool = False
    """Whether a snapshot is to come, as what was streamed is not, or not all of, what was said."""

    def __str__(self) -> str:
        ref = f"+{self.ref}" if self.ref else ""
        open_message = f"~{self.open_message}" if self.open_message else ""
        return f"{self.cursor}.{self.stage}{self.number}{ref}{open_message}{'!' if self.owes_snapshot else ''}"


def read_frame_id(text: str) -> FrameId | None:
    """Return the id that `str` has written as *text*; `None` if it is none."""
    match = _FRAME_ID.fullmatch(text)
    if match is None:
        return None
    seq, n, stage, number, ref, open_message, owes = match.groups()
    cursor = Cursor(int(seq), int(n))
    return FrameId(cursor, int(number), stage, (ref or "")[1:], (open_message or "")[1:], bool(owes))

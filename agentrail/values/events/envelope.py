"""Base classes of events, and the envelope with the place and time of each."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, final

from agentrail.values.personal import Kept
from agentrail.values.value import TAG, Authored


class Cursor(NamedTuple):
    """A position in a session's stream of events, to continue reading from."""

    seq: int
    """Sequence number of the last durable event up to here."""
    n: int = 0
    """Number of ephemeral events since that one."""

    def __str__(self) -> str:
        return f"{self.seq}.{self.n}"


class Event(Authored, tag_field=TAG):
    """Something that happened in a session."""

    durable: ClassVar[bool] = True


class Ephemeral(Event):
    """Base of events that are not stored, such as deltas; they have no sequence number of their own."""

    durable: ClassVar[bool] = False


@final
class Envelope(Authored):
    """An event with its session, its place in the stream and its time."""

    session_id: Kept[str]
    """Id of the session."""
    seq: int
    """Sequence number of the event, without gaps in a session; of an ephemeral event: that of the last durable one."""
    n: int
    """Number of an ephemeral event since the last durable one, from 1; 0 for a durable event."""
    at: int
    """When the event happened, in milliseconds since 1970."""
    turn: int
    """Number of the turn, 0 before the first."""
    round: int
    """Number of the round in the turn, 0 before the first."""
    event: Event
    """The event itself."""
    path: Kept[tuple[str, ...]] = ()
    """For a sub-agent's event: the ids of the parent session and call, outermost first; else empty."""
    by: Kept[str] = ""
    """Who gave the command of the step that the event is part of, as the caller said; empty if nobody said so."""

    @property
    def cursor(self) -> Cursor:
        """Position after this event, for `subscribe(since=…)`."""
        return Cursor(self.seq, self.n)

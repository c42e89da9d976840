"""What every event has in common, and the envelope it travels in."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from agentrail.values.value import Value, value


class Cursor(NamedTuple):
    """A place in the stream of one session's events."""

    seq: int
    """The number of the last durable event before or at this place."""
    n: int = 0
    """How many ephemeral events came behind it."""


class Event(Value):
    """Something that happened in a session."""

    __slots__ = ()
    durable: ClassVar[bool] = True


class Ephemeral(Event):
    """An event that is not stored: it carries the last durable number and a counter behind it."""

    __slots__ = ()
    durable: ClassVar[bool] = False


@value
class Envelope(Value):
    """An event with its place: whose it is, when and where it happened."""

    session_id: str
    """Which session."""
    seq: int
    """Its number, gap-free in the session; of an ephemeral event: the last number before it."""
    n: int
    """0 for a durable event; else which one behind `seq`."""
    at: int
    """When, in milliseconds since 1970."""
    turn: int
    """Which turn was open, 0 before the first."""
    round: int
    """Which round of the turn, 0 before the first."""
    event: Event
    """What happened."""
    path: tuple[str, ...] = ()
    """Of a sub-agent: parent session and call, outermost first."""

    @property
    def cursor(self) -> Cursor:
        """Where to go on: give it to `subscribe(since=…)`."""
        return Cursor(self.seq, self.n)

"""The ephemeral events of a session that can still be heard: a response may have thousands, so each takes little."""

from __future__ import annotations

from array import array

from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.response import MessageDelta


class Whispers:
    """The ephemeral events behind one durable event, the oldest of them perhaps forgotten; of a delta only its text."""

    __slots__ = ("_first", "at", "behind", "said")

    def __init__(self, behind: Envelope, first: int) -> None:
        self.behind = behind
        self._first = first
        self.at: array[int] = array("q")  # one object for the collector, however many
        self.said: list[Event | str] = []

    def forget_first(self) -> Cursor:
        """Forget the oldest, and return where it was."""
        del self.at[0], self.said[0]
        self._first += 1
        return Cursor(self.behind.seq, self._first - 1)

    @property
    def last(self) -> Cursor:
        """Where the newest is."""
        return Cursor(self.behind.seq, self._first + len(self.said) - 1)

    def after(self, since: Cursor) -> list[Envelope]:
        """Return those behind a place."""
        if self.last <= since:
            return []
        seq = self.behind.seq
        skipped = max(0, since.n + 1 - self._first) if since.seq == seq else 0
        return [
            whispered(self.behind, self._first + place, self.at[place], self.said[place])
            for place in range(skipped, len(self.said))
        ]


def whispered(behind: Envelope, n: int, at: int, said: Event | str) -> Envelope:
    """Return an ephemeral event with its place behind a durable one."""
    event = MessageDelta(said) if isinstance(said, str) else said
    return Envelope(behind.session_id, behind.seq, n, at, behind.turn, behind.round, event, behind.path)

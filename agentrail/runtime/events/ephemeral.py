"""The ephemeral events of a session that can still be heard: a response may have thousands, so each takes little."""

from __future__ import annotations

from array import array

from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.response import MessageDelta


class EphemeralTail:
    """The ephemeral events behind one durable event, the oldest of them perhaps forgotten; of a delta only its text."""

    __slots__ = ("_at", "_behind", "_first", "_said")

    def __init__(self, behind: Envelope, first: int) -> None:
        self._behind = behind
        self._first = first
        self._at: array[int] = array("q")  # one object for the collector, however many
        self._said: list[Event | str] = []

    def __len__(self) -> int:
        return len(self._said)

    def add(self, event: Event, n: int, at: int) -> Envelope:
        """Keep the next event, and return it with its place."""
        self._at.append(at)
        self._said.append(event.delta if type(event) is MessageDelta else event)
        behind = self._behind
        return Envelope(behind.session_id, behind.seq, n, at, behind.turn, behind.round, event, behind.path)

    def forget_first(self) -> Cursor:
        """Forget the oldest, and return where it was."""
        del self._at[0], self._said[0]
        self._first += 1
        return Cursor(self._behind.seq, self._first - 1)

    @property
    def last(self) -> Cursor:
        """Where the newest is."""
        return Cursor(self._behind.seq, self._first + len(self) - 1)

    def after(self, since: Cursor) -> list[Envelope]:
        """Return those behind a place."""
        if self.last <= since:
            return []
        skipped = max(0, since.n + 1 - self._first) if since.seq == self._behind.seq else 0
        kept = zip(self._at[skipped:], self._said[skipped:], strict=True)
        return [
            self._behind.but(n=n, at=at, event=MessageDelta(said) if isinstance(said, str) else said)
            for n, (at, said) in enumerate(kept, self._first + skipped)
        ]

"""Past events for subscribers: durable ones from the journal, and ephemeral ones that are kept in memory for a while.

`EphemeralTail` keeps the ephemeral ones. Of a delta it stores the text alone, because a response may have thousands.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from agentrail.ports.journal import Record
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.plugins import Gap
from agentrail.values.events.response import MessageDelta
from agentrail.values.value import quick

_delta = quick(MessageDelta)
_envelope = quick(Envelope)


class EphemeralTail:
    """Buffer of the ephemeral events since the last durable one; the oldest may have been dropped.

    Their envelopes are made when somebody reads them.
    """

    __slots__ = ("_behind", "_first", "at", "said")

    def __init__(self, behind: Envelope, first: int) -> None:
        self._behind = behind
        self._first = first
        self.at: array[int] = array("q")  # one object for the garbage collector, however many times are in it
        self.said: list[Event | str] = []

    def __len__(self) -> int:
        return len(self.said)

    def envelopes(self, first: int, last: int) -> list[Envelope]:
        """Return the events with the numbers from *first* to *last*, none of which must have been dropped."""
        like, start, end = self._behind.but(by=""), first - self._first, last + 1 - self._first
        return [
            like.but(n=n, at=at, event=_delta(event_) if isinstance(event_, str) else event_)
            for n, (event_, at) in enumerate(zip(self.said[start:end], self.at[start:end], strict=True), first)
        ]

    def forget_first(self) -> Cursor:
        """Drop the oldest event, and return its position."""
        del self.at[0], self.said[0]
        self._first += 1
        return Cursor(self._behind.seq, self._first - 1)

    @property
    def last(self) -> Cursor:
        """Position of the newest event."""
        return Cursor(self._behind.seq, self._first + len(self) - 1)

    def after(self, since: Cursor) -> list[Envelope]:
        """Return the buffered events after a position."""
        last = self.last
        if last <= since:
            return []
        first = max(self._first, since.n + 1) if since.seq == last.seq else self._first
        return self.envelopes(first, last.n)


PAGE: Final = 100


class Reader(Protocol):
    """Interface: reads the journal records of one session."""

    async def read(self, after: int, limit: int) -> Sequence[Record]:
        """Return up to *limit* records after number *after*."""
        ...

    async def record_of_seq(self, seq: int) -> int:
        """Return the number of the record after which to read to get the events after *seq*."""
        ...


class EventReplay:
    """Reads the events between two positions for one subscriber."""

    __slots__ = ("_found", "_read_to", "_record", "_records", "_session_id", "_to", "_types", "_whispers")

    def __init__(
        self,
        session_id: str,
        records: Reader,
        types: tuple[type[Event], ...] | None,
        since: Cursor,
        to: Cursor,
        whispers: list[Envelope],
        first: list[Envelope],
    ) -> None:
        self._session_id = session_id
        self._records = records
        self._types = types
        self._read_to = since
        self._to = to
        self._whispers = whispers
        self._found = first
        self._record: int | None = None

    def next_now(self) -> Envelope | None:
        """Return the next event if it was read already, else `None`."""
        return self._found.pop(0) if self._found else None

    async def next(self) -> Envelope | None:
        """Return the next event; `None` after the last."""
        while not self._found:
            if self._read_to >= self._to:
                return None
            await self._read_on()
        return self._found.pop(0)

    async def _read_on(self) -> None:
        """Read more durable events from the journal, with buffered deltas in between."""
        if self._read_to.seq >= self._to.seq:  # only deltas are missing, and the journal has none
            self._found.extend(self._whispers_before(None))
            self._read_to = self._to
            return
        if self._record is None:
            self._record = await patiently(partial(self._records.record_of_seq, self._read_to.seq))
        records = await patiently(partial(self._records.read, self._record, PAGE))
        if not records:  # the records were deleted from the journal meanwhile
            self._found.append(gap_between(self._session_id, self._read_to, self._to))
        for record in records:
            if record.events and record.events[0].seq > self._to.seq:
                records = ()
                break
            self._record = record.number
            for envelope in record.events:
                if envelope.seq > self._read_to.seq:
                    if envelope.seq > self._read_to.seq + 1:  # a journal in memory no longer has those in between
                        self._found.append(gap_between(self._session_id, self._read_to, Cursor(envelope.seq - 1)))
                    self._found.extend(self._whispers_before(envelope.seq))
                    if self._types is None or isinstance(envelope.event, self._types):
                        self._found.append(envelope)
                    self._read_to = envelope.cursor
        if not records or self._read_to.seq >= self._to.seq:
            self._found.extend(self._whispers_before(None))
            self._read_to = self._to

    def _whispers_before(self, seq: int | None) -> list[Envelope]:
        """Take the buffered ephemeral events before durable event *seq*; `None`: all."""
        out = [w for w in self._whispers if seq is None or w.seq < seq]
        self._whispers = self._whispers[len(out) :]
        return out if self._types is None else [w for w in out if isinstance(w.event, self._types)]


def gap_between(session_id: str, start: Cursor, end: Cursor) -> Envelope:
    """Return the `Gap` event for the events between two positions, which are no longer kept."""
    return _envelope(session_id, start.seq, start.n, 0, 0, 0, Gap(start.seq, start.n, end.seq, end.n))

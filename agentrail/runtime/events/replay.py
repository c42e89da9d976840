"""Past events for a subscriber: those that the event log no longer holds are read from the journal."""

from __future__ import annotations

from functools import partial
from typing import Final

from agentrail.runtime.events.log import EventLog
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.plugins import Gap
from agentrail.values.value import quick

_envelope = quick(Envelope)

PAGE: Final = 100
"""How many records are read at once."""


class Replay:
    """The events of some types from a position up to the end of a log, as it is now."""

    __slots__ = ("_at", "_found", "_held", "_log", "_record", "_to", "_types")

    def __init__(
        self, log: EventLog, since: Cursor, types: tuple[type[Event], ...] | None, *, with_deltas: bool
    ) -> None:
        self._log = log
        self._types = types
        dropped = log.dropped
        lost = dropped if with_deltas and dropped is not None and since < dropped else None
        self._found = [] if lost is None else [gap_between(log.session_id, since, lost)]
        self._at = since  # position up to which the journal was read
        self._to = log.oldest.seq  # the events after this one are held by the log, and need not be read
        self._held = log.after(max(since, Cursor(self._to)))
        self._record: int | None = None  # number of the record after which to read

    def next_now(self) -> Envelope | None:
        """Return the next event if it was read already, else `None`."""
        return self._found.pop(0) if self._found else None

    async def next(self) -> Envelope | None:
        """Return the next event; `None` after the last."""
        while not self._found:
            if self._at.seq < self._to:
                await self._read_on()
            elif self._held:
                self._found, self._held = [envelope for envelope in self._held if self._wants(envelope)], []
            else:
                return None
        return self._found.pop(0)

    def _wants(self, envelope: Envelope) -> bool:
        """Whether an event is of the wanted types."""
        return self._types is None or isinstance(envelope.event, self._types)

    async def _read_on(self) -> None:
        """Read a page of the journal."""
        records = self._log.records
        if self._record is None:
            self._record = await patiently(partial(records.record_of_seq, self._at.seq))
        page = await patiently(partial(records.read, self._record, PAGE))
        for record in page:
            self._record = record.number
            for envelope in record.events:
                if envelope.seq > self._at.seq:
                    self._pass_over(envelope.seq - 1)  # a journal in memory no longer has those in between
                    if envelope.seq <= self._to:
                        if self._wants(envelope):
                            self._found.append(envelope)
                        self._at = envelope.cursor
        if not page:  # the records were deleted from the journal meanwhile
            self._pass_over(self._to)

    def _pass_over(self, seq: int) -> None:
        """Go on after event *seq*, or where the log goes on; if there are events before it, a `Gap` stands for them."""
        end = Cursor(min(seq, self._to))
        if end.seq > self._at.seq:
            self._found.append(gap_between(self._log.session_id, self._at, end))
            self._at = end


def gap_between(session_id: str, start: Cursor, end: Cursor) -> Envelope:
    """Return the `Gap` event for the events between two positions, which are no longer kept."""
    return _envelope(session_id, start.seq, start.n, 0, 0, 0, Gap(start.seq, start.n, end.seq, end.n))

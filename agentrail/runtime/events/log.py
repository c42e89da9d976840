"""Event log of a session: its events in order, each with an index, of which the last ones are held in memory.

Subscribers read it by index. It holds what one of them has still to read, and the last ephemeral events of the open
turn for those who come later. All other durable events are read from the journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final, Protocol, cast

from agentrail.ports.failpoints import reach
from agentrail.ports.journal import Record
from agentrail.reprs import in_brackets, listed, some
from agentrail.runtime.shared.admission import Gate
from agentrail.values.events.context import PrefixChanged
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.life import AgentAbort, AgentEnd
from agentrail.values.events.response import MessageDelta
from agentrail.values.value import quick

_TURN_ENDS = frozenset({AgentEnd, AgentAbort})
# Of stretches to which nothing is added, as that of each sleeping session.
_NO_TIMES = list[int]()
_delta = quick(MessageDelta)
_envelope = quick(Envelope)

LENGTH: Final = 256
"""After how many ephemeral events a new stretch begins: a stretch is dropped as a whole."""

REACH: Final = 4096
"""How many events back ephemeral ones are held for those who come later: the durable ones in between are held too."""


class Reader(Protocol):
    """Interface: reads the journal records of one session."""

    async def read(self, after: int, limit: int) -> Sequence[Record]:
        """Return up to *limit* records after number *after*."""
        ...

    async def record_of_seq(self, seq: int) -> int:
        """Return the number of the record after which to read to get the events after *seq*."""
        ...


class LogListener(Protocol):
    """Interface: a subscription, as the log uses it."""

    hears_deltas: bool
    """Whether it wants ephemeral events."""

    def wants(self, kind: type[Event]) -> bool:
        """Whether it wants events of the class *kind*."""
        ...

    def offer(self, stretch: Stretch, count: int) -> int:
        """Take notice of the newest *count* events, at the end of *stretch*.

        Return of how many further ephemeral ones it need not be told; see `EventLog.untold_until`.
        """
        ...

    def wake(self) -> None:
        """Wake the reader."""
        ...


def _nothing(session_id: str, seq: int) -> Envelope:
    """Return an envelope in place of that of the durable event *seq*, which is not held."""
    return Envelope(session_id, seq, 0, 0, 0, 0, Event())


_UNHELD: Final = _nothing("", 0)  # of no session: the log that adds to its stretch says which one


class Stretch:
    """Events in a row: the durable ones of one step, or ephemeral ones after the same durable event.

    Of a delta it stores the text alone, because a response may have thousands; envelopes of ephemeral events are made
    when somebody reads them. Each stretch refers to the next one, so those before the place of every reader are freed.
    """

    __slots__ = ("_last_durable", "_n", "at", "events", "following", "is_ephemeral", "seq", "start")

    def __init__(
        self, start: int, seq: int, events: Sequence[Envelope] = (), last_durable: Envelope = _UNHELD, n: int = 0
    ) -> None:
        self.start = start
        """Index of the first event."""
        self.events = cast("list[Envelope | Event | str]", [] if n else events)
        """The events; a text is a `MessageDelta`. Nothing is added to durable ones: they may be a tuple."""
        self.following: Stretch | None = None
        """The next stretch."""
        self.is_ephemeral = n > 0
        """Whether the events are ephemeral."""
        # When each ephemeral event came, in milliseconds since 1970. Those of one millisecond share an object.
        self.at: list[int] = [] if n else _NO_TIMES
        self.seq = seq
        """Number of the durable event before the first event."""
        self._last_durable = last_durable  # `_UNHELD` if it is not held
        self._n = n  # number of the first ephemeral event, since that one

    @property
    def ephemeral_count(self) -> int:
        """Number of ephemeral events."""
        return len(self.events) if self.is_ephemeral else 0

    def cursor(self, count: int) -> Cursor:
        """Return the position after *count* events."""
        return Cursor(self.seq, self._n + count - 1) if self.is_ephemeral else Cursor(self.seq + count)

    def ephemeral(self, start: int, session_id: str) -> Stretch:
        """Return a stretch for the ephemeral events from index *start* on, which come after those of this one."""
        if self.is_ephemeral:
            return Stretch(start, self.seq, (), self._last_durable, self._n + len(self.events))
        seq, last = self.seq + len(self.events), self._last_durable
        return Stretch(start, seq, (), _nothing(session_id, seq) if last is _UNHELD else last, 1)

    def envelopes(self, first: int, stop: int) -> list[Envelope]:
        """Return the events from index *first* up to *stop*, which it has."""
        begin, end = first - self.start, stop - self.start
        events = self.events[begin:end]
        if not self.is_ephemeral:
            return [*cast("Sequence[Envelope]", events)]
        last, ephemeral = self._last_durable, cast("list[Event | str]", events)
        session_id, seq, turn, round_, path = last.session_id, last.seq, last.turn, last.round, last.path
        # By position, without `by`, as nobody gave a command for them: a copy with changes takes twice as long.
        return [
            _envelope(session_id, seq, n, at_ms, turn, round_, _delta(event) if isinstance(event, str) else event, path)
            for n, at_ms, event in zip(count(self._n + begin), self.at[begin:end], ephemeral, strict=False)
        ]


class EventLog:
    """The events of one session, and those who subscribe to them."""

    __slots__ = (
        "_buffer_size",
        "_dropped",
        "_earlier_count",
        "_hear_deltas",
        "_listeners",
        "closed",
        "hearing",
        "hears_prefix",
        "newest",
        "oldest",
        "records",
        "session_id",
        "untold_until",
    )

    def __init__(
        self,
        session_id: str,
        buffer_size: int,
        records: Reader,
        hearing: Gate,
        last_seq: int = 0,
        *,
        mid_turn: bool = False,
    ) -> None:
        self.session_id = session_id
        self.records = records
        self.hearing = hearing
        """Wakes those who hear deltas, a few in each pass."""
        self.closed = False
        self.newest = self.oldest = Stretch(0, last_seq)
        """The last stretch; and the first that is held for those who come later."""
        self.untold_until = 0
        """How many events the newest stretch is to have before anybody need be told of further ephemeral ones.

        Up to there, who hears them is awake or about to be woken, follows the log, and has room for them. Whatever
        changes one of these sets it to 0.
        """
        self._earlier_count = 0  # ephemeral events from the oldest stretch on, without those of the newest one
        self._buffer_size = buffer_size
        # Ephemeral events of an earlier process are gone, also those after the last durable one if a turn was open:
        # tests/runtime/test_cursors.py::test_deltas_of_an_earlier_process_are_a_gap
        self._dropped: Cursor | None = Cursor(last_seq + mid_turn) if last_seq else None
        self._listeners: tuple[LogListener, ...] = ()
        self._hear_deltas: tuple[LogListener, ...] = ()
        # Whether a subscription wanted `PrefixChanged` so far: from the first on, the session follows what changes.
        self.hears_prefix = False

    @in_brackets
    def __repr__(self) -> str:
        position = f"{self.session_id!r} at {self.cursor}"
        return listed(position, some(len(self._listeners), "subscription"), "closed" if self.closed else "")

    @property
    def end(self) -> int:
        """Index after the newest event."""
        return self.newest.start + len(self.newest.events)

    @property
    def _ephemeral_count(self) -> int:
        """Number of ephemeral events from the oldest stretch on."""
        return self._earlier_count + self.newest.ephemeral_count

    @property
    def cursor(self) -> Cursor:
        """Position after the last event."""
        return self.newest.cursor(len(self.newest.events))

    def publish(self, envelopes: Sequence[Envelope]) -> None:
        """Add durable events, in order, and wake the subscribers that want them."""
        if not envelopes:
            return
        reach("PUBLISH")
        stretch = self._append(Stretch(self.end, envelopes[0].seq - 1, envelopes, envelopes[-1]))
        for listener in self._listeners:
            listener.offer(stretch, len(envelopes))
        if self._earlier_count:  # the newest stretch has none
            ends = not _TURN_ENDS.isdisjoint([type(envelope.event) for envelope in envelopes])
            self._forget(0 if ends else self._buffer_size)
        else:
            self.oldest = stretch
        reach("PUBLISHED")

    def publish_ephemeral(self, event: Event | str, at_ms: int) -> None:
        """Add an ephemeral event, which is not journaled; a text is a `MessageDelta`."""
        stretch = self.newest
        if len(stretch.events) < self.untold_until:
            stretch.events.append(event)
            stretch.at.append(at_ms)
            return
        if not stretch.is_ephemeral or len(stretch.events) >= LENGTH:
            stretch = self._append(stretch.ephemeral(self.end, self.session_id))
            if self._ephemeral_count > self._buffer_size:
                self._forget(self._buffer_size)
        stretch.events.append(event)
        stretch.at.append(at_ms)
        untold_until = LENGTH
        for listener in self._hear_deltas:
            untold_until = min(untold_until, len(stretch.events) + listener.offer(stretch, 1))
        self.untold_until = untold_until

    def _append(self, stretch: Stretch) -> Stretch:
        """Make *stretch* the newest, and return it."""
        self.untold_until = 0
        last = self.newest
        if last.is_ephemeral:
            self._earlier_count += len(last.events)
        last.following = self.newest = stretch
        return stretch

    def _forget(self, most: int) -> None:
        """Hold *most* ephemeral events for those who come later, or a few more, as stretches are dropped as a whole."""
        stretch, end, surplus = self.oldest, self.end, self._ephemeral_count - most
        while (following := stretch.following) is not None:
            count = len(stretch.events) if stretch.is_ephemeral else 0
            if count > max(0, surplus) and end - stretch.start <= REACH:
                break
            if count:
                self._earlier_count -= count
                surplus -= count
                self._dropped = stretch.cursor(count)
            stretch = following
        self.oldest = stretch

    @property
    def dropped(self) -> Cursor | None:
        """Position of the newest ephemeral event that is not kept for those who come later; `None` if all are."""
        self._forget(self._buffer_size)
        surplus = self._ephemeral_count - self._buffer_size
        return self.oldest.cursor(surplus) if surplus > 0 else self._dropped

    def after(self, since: Cursor) -> list[Envelope]:
        """Return the events after *since* that are held, the ephemeral ones as far as they are kept."""
        self._forget(self._buffer_size)
        stretch: Stretch | None = self.oldest
        events, index = list[Envelope](), self.oldest.start + max(0, self._ephemeral_count - self._buffer_size)
        while stretch is not None:
            end = stretch.start + len(stretch.events)
            if stretch.cursor(len(stretch.events)) > since:
                events += filter(lambda envelope: envelope.cursor > since, stretch.envelopes(index, end))
            stretch, index = stretch.following, end
        return events

    def join(self, listener: LogListener) -> None:
        """Offer *listener* all events from now on."""
        self._set_listeners((*self._listeners, listener))

    def leave(self, listener: LogListener) -> None:
        """Offer *listener* no more events."""
        self._set_listeners(tuple(other for other in self._listeners if other is not listener))

    def _set_listeners(self, listeners: tuple[LogListener, ...]) -> None:
        """Set the subscriptions, and those among them that want ephemeral events."""
        self.untold_until = 0
        self._listeners = listeners
        self._hear_deltas = tuple(listener for listener in listeners if listener.hears_deltas)
        if not self.hears_prefix:
            self.hears_prefix = any(listener.wants(PrefixChanged) for listener in self._hear_deltas)

    def release(self) -> None:
        """Hold nothing for those who come later, as while the session sleeps."""
        cursor = self.cursor
        if cursor.n:  # of a turn that goes on elsewhere: what comes is numbered on
            held = Stretch(self.end, cursor.seq, (), _nothing(self.session_id, cursor.seq), cursor.n + 1)
        else:
            held = Stretch(self.end, cursor.seq)
        self._append(held)
        self._forget(0)

    def close(self) -> None:
        """Tell all subscribers that no more events come."""
        self.closed = True
        self.release()
        for listener in self._listeners:
            listener.wake()

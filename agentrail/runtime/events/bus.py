"""Event bus of a session: delivers events in order, and applies each subscriber's policy if it falls behind."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

import trio

from agentrail.errors import AlreadyLeft, AlreadyRead, NotEntered, SubscriberTooSlow
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.reprs import in_brackets, listed, some
from agentrail.runtime.events.replay import EphemeralTail, Past, Reader, gap_between
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.life import AgentAbort, AgentEnd
from agentrail.values.events.plugins import Gap
from agentrail.values.events.response import MessageDelta, ThinkingDelta

Policy: TypeAlias = Literal["coalesce", "drop", "disconnect"]
"""How a subscriber that is too slow is treated; see `POLICIES`."""

POLICIES: Final[tuple[Policy, ...]] = ("coalesce", "drop", "disconnect")
"""How a subscriber that is too slow is treated. `coalesce`: its deltas are merged, and durable events are read again
from the journal. `drop`: events are left out, and a `Gap` marks the place. `disconnect`: the stream ends with an error
that has the cursor from which to go on."""

CAPACITY: Final = 1024
"""How many events may wait for one subscriber, unless it gives a `capacity`; with more, its policy is applied."""

MOST_MERGED: Final = 16 * 1024
"""The most characters of a merged delta; beyond it the subscriber counts as fallen behind."""

_TURN_ENDS = (AgentEnd, AgentAbort)
_DELTAS = (MessageDelta, ThinkingDelta)
_BEGINNING: Final = Cursor(0)


class Bus:
    """Event bus of one session."""

    __slots__ = (
        "_before",
        "_buffer",
        "_buffer_size",
        "_buffered",
        "_last",
        "_n",
        "_subscriptions",
        "_whispers",
        "closed",
        "dropped",
        "records",
        "session_id",
    )

    def __init__(
        self, session_id: str, buffer_size: int, records: Reader, before: int = 0, *, mid_turn: bool = False
    ) -> None:
        self.session_id = session_id
        self.records = records
        self.closed = False
        # Ephemeral events of an earlier process are gone, also those after the last durable one if a turn was open:
        # tests/runtime/test_cursors.py::test_deltas_of_an_earlier_process_are_a_gap
        self.dropped: Cursor | None = Cursor(before + mid_turn) if before else None
        self._whispers: EphemeralTail | None = None
        self._buffer: tuple[EphemeralTail, ...] = ()
        self._buffered = 0
        self._buffer_size = buffer_size
        self._before = before
        self._last: Envelope | None = None
        self._n = 0
        self._subscriptions: tuple[Subscription, ...] = ()

    @in_brackets
    def __repr__(self) -> str:
        cursor = self.cursor
        said = f"{self.session_id!r} at {cursor.seq}.{cursor.n}"
        return listed(said, some(len(self._subscriptions), "subscription"), "closed" if self.closed else "")

    @property
    def cursor(self) -> Cursor:
        """Position after the last published event."""
        return Cursor(self._last.seq if self._last is not None else self._before, self._n)

    def publish(self, envelopes: Sequence[Envelope]) -> None:
        """Deliver durable events to all subscribers, in order."""
        if not envelopes:
            return
        reach(Failpoint.PUBLISH)
        self._last = envelopes[-1]
        self._n = 0
        self._whispers = None
        for subscription in self._subscriptions:
            subscription.offer(envelopes)
        if self._buffered and any(isinstance(envelope.event, _TURN_ENDS) for envelope in envelopes):
            self._drop_buffer()
        reach(Failpoint.PUBLISHED)

    def whisper(self, event: Event, at: int) -> None:
        """Deliver an ephemeral event (a delta, for instance), which is not journaled, to all subscribers."""
        self._n = n = self._n + 1
        whispers = self._whispers
        if whispers is None:
            whispers = self._begin_to_whisper()
        envelope = whispers.add(event, n, at)
        self._buffered += 1
        if self._buffered > self._buffer_size:
            self._forget_first()
        for subscription in self._subscriptions:
            subscription.offer((envelope,))

    def _begin_to_whisper(self) -> EphemeralTail:
        behind = self._last or Envelope(self.session_id, self._before, 0, 0, 0, 0, Event())
        whispers = self._whispers = EphemeralTail(behind, self._n)
        self._buffer = (*self._buffer, whispers)
        return whispers

    def _forget_first(self) -> None:
        first = self._buffer[0]
        self.dropped = first.forget_first()
        self._buffered -= 1
        if not first:
            self._buffer = self._buffer[1:]
            if first is self._whispers:
                self._whispers = None

    def buffered(self, since: Cursor) -> list[Envelope]:
        """Return the buffered ephemeral events after *since*."""
        return [envelope for whispers in self._buffer for envelope in whispers.after(since)]

    def join(self, subscription: Subscription) -> None:
        """Add *subscription*: it gets all events from now on."""
        self._subscriptions = (*self._subscriptions, subscription)

    def leave(self, subscription: Subscription) -> None:
        """Remove *subscription*."""
        self._subscriptions = tuple(other for other in self._subscriptions if other is not subscription)

    def rest(self) -> None:
        """Drop the last event and keep only its number, while the session hibernates."""
        self._before, self._last, self._whispers = self.cursor.seq, None, None

    def close(self) -> None:
        """Tell all subscribers that no more events come."""
        self.closed = True
        for subscription in self._subscriptions:
            subscription.end()
        self._drop_buffer()

    def _drop_buffer(self) -> None:
        if self._buffered:
            self.dropped = self._buffer[-1].last
        self._buffer, self._buffered, self._whispers = (), 0, None


class Subscription:
    """One subscriber's view of a session: `async with` it, then `async for` over it."""

    __slots__ = (
        "_barred",
        "_bus",
        "_capacity",
        "_ended",
        "_entered",
        "_last_out",
        "_lost_to",
        "_past",
        "_policy",
        "_queue",
        "_room",
        "_since",
        "_start",
        "_task",
        "_too_slow",
        "_types",
    )

    def __init__(
        self,
        bus: Bus,
        *,
        since: Cursor | None,
        types: tuple[type[Event], ...] | None,
        policy: str,
        capacity: int,
    ) -> None:
        self._bus = bus
        self._since = since
        self._types = types
        self._policy = policy
        self._capacity = capacity
        self._room = capacity if types is None else 0
        self._queue: list[Envelope] = []
        self._past: Past | None = None
        self._start = _BEGINNING
        self._last_out: Envelope | None = None
        self._lost_to: Cursor | None = None
        self._too_slow = False
        self._ended = False
        self._entered = False
        self._barred: type[AlreadyLeft | AlreadyRead] | None = None
        self._task: trio.lowlevel.Task | None = None

    @in_brackets
    def __repr__(self) -> str:
        left = self._barred is AlreadyLeft
        over = "left" if left else "too slow" if self._too_slow else "ended" if self._ended else ""
        said = f"{self._bus.session_id!r} {len(self._queue)} of {self._capacity} wait"
        return listed(said, over if self._entered else "not entered")

    async def __aenter__(self) -> Self:
        """Start to receive events."""
        self._entered = True
        self._start = self._bus.cursor
        if self._since is not None:
            self._go_back(min(self._since, self._start))  # a cursor ahead of the stream counts as its end
        if self._bus.closed:
            self._ended = True
        else:
            self._bus.join(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to receive events."""
        self._barred = AlreadyLeft
        self._bus.leave(self)

    def _go_back(self, since: Cursor) -> None:
        """Plan to read events after *since* again, and mark a gap for those no longer kept."""
        bus = self._bus
        first: list[Envelope] = []
        if bus.dropped is not None and since < bus.dropped and self._hears_deltas:
            first.append(gap_between(bus.session_id, since, bus.dropped))
        self._past = Past(bus.session_id, bus.records, self._types, since, bus.cursor, bus.buffered(since), first)
        self._start = since

    @property
    def _hears_deltas(self) -> bool:
        return self._types is None or any(not kind.durable for kind in self._types)

    @property
    def waiting(self) -> int:
        """Number of live events that wait to be taken."""
        return len(self._queue)

    # From the bus

    def offer(self, envelopes: Sequence[Envelope]) -> None:
        """Called by the bus: queue events, or apply the policy if too many wait."""
        if len(self._queue) + len(envelopes) <= self._room:
            self._queue.extend(envelopes)
        else:
            taken = [self._squeezed_in(envelope) for envelope in envelopes]
            if not any(taken):
                return
        task = self._task
        if task is not None:
            self._task = None
            trio.lowlevel.reschedule(task)

    def _squeezed_in(self, envelope: Envelope) -> bool:
        """Queue, merge, filter out or drop an event if there is no room; return whether the subscriber has news."""
        if self._types is not None and not isinstance(envelope.event, self._types):
            return False
        if self._too_slow:
            return False
        if self._lost_to is not None:
            self._lost_to = envelope.cursor
            return False
        if len(self._queue) < self._capacity:
            self._queue.append(envelope)
            return True
        if self._merged(envelope):
            return True
        self._room = 0
        if self._policy == "disconnect":
            self._too_slow = True
        else:
            self._lost_to = envelope.cursor
        return True

    def _merged(self, envelope: Envelope) -> bool:
        """Merge a delta into the last waiting one if both are of one type and the policy merges; return success."""
        last = self._queue[-1]
        event = envelope.event
        if self._policy != "coalesce" or type(last.event) is not type(event) or last.seq != envelope.seq:
            return False
        if not isinstance(event, _DELTAS) or not isinstance(last.event, _DELTAS):
            return False
        if len(last.event.delta) >= MOST_MERGED:
            return False
        self._queue[-1] = envelope.but(event=event.but(delta=last.event.delta + event.delta))
        return True

    def end(self) -> None:
        """Called by the bus: no more events come."""
        self._ended = True
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    # To the subscriber

    def __aiter__(self) -> Self:
        if not self._entered:
            raise NotEntered
        return self

    async def __anext__(self) -> Envelope:
        if self._barred is not None:
            raise self._barred
        if self._queue and self._past is None:
            self._last_out = envelope = self._queue.pop(0)
            return envelope
        self._barred = AlreadyRead
        try:
            while True:
                if self._past is not None:
                    again = await self._past.next()
                    if again is not None:
                        return self._out(again)
                    self._past = None
                if self._queue:
                    self._last_out = envelope = self._queue.pop(0)
                    return envelope
                if self._lost_to is not None:
                    gap = self._catch_up(self._lost_to)
                    if gap is not None:
                        return gap
                    continue
                if self._too_slow:
                    raise SubscriberTooSlow(self._position.seq, self._position.n)
                if self._ended:
                    raise StopAsyncIteration
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._leave)
        finally:
            if self._barred is AlreadyRead:
                self._barred = None

    def _out(self, envelope: Envelope) -> Envelope:
        """Return *envelope*, which was read again; it is the subscriber's new position, unless it is a `Gap`."""
        if not isinstance(envelope.event, Gap):
            self._last_out = envelope
        return envelope

    @property
    def _position(self) -> Cursor:
        """Position after the last event that the subscriber got."""
        return self._start if self._last_out is None else max(self._start, self._last_out.cursor)

    def _catch_up(self, lost_to: Cursor) -> Envelope | None:
        """Called when the queue is empty: plan to read what was left out, or return the `Gap` that marks it."""
        self._lost_to = None
        self._room = self._capacity if self._types is None else 0
        position = self._position
        if self._policy == "coalesce":
            self._go_back(position)
            return None
        self._start = lost_to
        return gap_between(self._bus.session_id, position, lost_to)

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

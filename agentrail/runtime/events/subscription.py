"""One subscriber's view of a session's events, and the policies for a subscriber that falls behind."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

import trio

from agentrail.errors import AlreadyLeft, AlreadyRead, NotEntered, SubscriberTooSlow
from agentrail.reprs import in_brackets, listed
from agentrail.runtime.events.replay import EphemeralTail, EventReplay, Reader, gap_between
from agentrail.runtime.shared.admission import Gate
from agentrail.values.events.envelope import Cursor, Envelope, Ephemeral, Event
from agentrail.values.events.plugins import Gap
from agentrail.values.events.response import MessageDelta, ThinkingDelta

CAPACITY: Final = 1024
"""How many events may wait for one subscriber, unless it gives a `capacity`; with more, its policy is applied."""

MAX_MERGED: Final = 16 * 1024
"""The most characters of a merged delta; beyond it the subscriber counts as fallen behind."""

_DELTAS = (MessageDelta, ThinkingDelta)
_BEGINNING: Final = Cursor(0)


class EphemeralRun(NamedTuple):
    """Ephemeral events that wait for a subscriber; their envelopes are made when it reads them."""

    tail: EphemeralTail
    first: int
    """Number of the first, since the durable event before them."""
    last: int
    """Number of the last."""


class Source(Protocol):
    """Interface: the event bus, as a subscription uses it."""

    session_id: str
    records: Reader
    closed: bool
    dropped: Cursor | None
    hearing: Gate
    """Who hears of deltas is woken by it."""

    @property
    def cursor(self) -> Cursor:
        """Position after the last published event."""
        ...

    @property
    def tail(self) -> tuple[EphemeralTail | None, int]:
        """The ephemeral events since the last durable one, and the number of the newest; 0 if there are none."""
        ...

    def buffered(self, since: Cursor) -> list[Envelope]:
        """Return the buffered ephemeral events after *since*."""
        ...

    def join(self, subscription: Subscription) -> None:
        """Add *subscription*: it gets all events from now on."""
        ...

    def leave(self, subscription: Subscription) -> None:
        """Remove *subscription*."""
        ...


class Subscription:
    """One subscriber's view of a session: `async with` it, then `async for` over it."""

    __slots__ = (
        "_at_gate",
        "_barred",
        "_bus",
        "_capacity",
        "_ended",
        "_entered",
        "_folded",
        "_last_out",
        "_lost_to",
        "_next",
        "_past",
        "_policy",
        "_queue",
        "_room",
        "_runs",
        "_since",
        "_start",
        "_types",
        "dropped",
        "hears_deltas",
        "merged",
        "room_to",
        "task",
    )

    def __init__(
        self,
        bus: Source,
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
        # *types* may have a class of ephemeral events, or a base class of them, such as `Event`.
        self.hears_deltas = types is None or any(issubclass(t, Ephemeral) or issubclass(Ephemeral, t) for t in types)
        self._room = capacity if types is None else 0
        self._queue: list[Envelope | EphemeralRun] = []
        self._runs = self._folded = 0  # runs in the queue, and how many more events than items are in it
        self._next = 1  # number (since the last durable event) of the next ephemeral event to queue
        self.room_to = 0  # ephemeral events up to this number have room, maybe more if some were read since
        self._past: EventReplay | None = None
        self._start = _BEGINNING
        self._last_out: Envelope | None = None
        self._lost_to: Cursor | None = None
        self._ended = False
        self._entered = False
        self._barred: type[AlreadyLeft | AlreadyRead] | None = None
        self.merged = self.dropped = 0  # how many deltas were merged with others, and how many events had no room
        self.task: trio.lowlevel.Task | None = None
        self._at_gate = False

    @in_brackets
    def __repr__(self) -> str:
        has_left = self._barred is AlreadyLeft
        over = "left" if has_left else "too slow" if self._is_too_slow else "ended" if self._ended else ""
        summary = f"{self._bus.session_id!r} {self.waiting} of {self._capacity} wait"
        return listed(summary, over if self._entered else "not entered")

    async def __aenter__(self) -> Self:
        """Start to receive events."""
        self._entered = True
        self._start = self._bus.cursor
        if self._since is not None:
            self._go_back(min(self._since, self._start))  # a cursor ahead of the stream counts as its end
        if self._bus.closed:
            self._ended = True
        else:
            self._next = self._bus.tail[1] + 1
            self._bus.join(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to receive events."""
        self._barred = AlreadyLeft
        self._bus.leave(self)

    def _go_back(self, since: Cursor) -> None:
        """Continue by reading the events after *since* again, with a `Gap` for those no longer kept."""
        bus = self._bus
        first: list[Envelope] = []
        if bus.dropped is not None and since < bus.dropped and self.hears_deltas:
            first.append(gap_between(bus.session_id, since, bus.dropped))
        self._past = EventReplay(
            bus.session_id, bus.records, self._types, since, bus.cursor, bus.buffered(since), first
        )
        self._start = since

    def wants(self, kind: type[Event]) -> bool:
        """Whether events of the class *kind* are among those that the subscriber gets."""
        return self._types is None or issubclass(kind, self._types)

    @property
    def _is_too_slow(self) -> bool:
        """Whether the subscriber is to be disconnected for falling behind, after it has read what is queued."""
        return self._lost_to is not None and self._policy == "disconnect"

    @property
    def waiting(self) -> int:
        """Number of live events that wait to be taken."""
        hears = self.hears_deltas and self._entered and self._barred is not AlreadyLeft
        return len(self._queue) + self._folded + (max(0, self._bus.tail[1] + 1 - self._next) if hears else 0)

    # From the bus

    def offer(self, envelopes: Sequence[Envelope]) -> None:
        """Queue durable events, or apply the policy; called by the bus before it resets the ephemeral count."""
        tail, last = self._bus.tail
        if tail is not None and self._next <= last and self.hears_deltas:
            self._queue.append(EphemeralRun(tail, self._next, last))
            self._runs += 1
            self._folded += last - self._next
        self._next, self.room_to = 1, 0
        if len(self._queue) + self._folded + len(envelopes) <= self._room:
            self._queue.extend(envelopes)
        else:
            self._unfold()
            for envelope in envelopes:
                self._squeeze_in(envelope)
        self.room_to = self._room - len(self._queue) - self._folded
        if self._queue:
            self.wake()

    def squeeze(self, n: int) -> None:
        """Note the new ephemeral event *n*, or apply the policy if there is no room; called by the bus."""
        self.room_to = self._room - len(self._queue) - self._folded + self._next - 1
        if n <= self.room_to:
            self.wake_in_turn()
            return
        self.keep(n - 1)
        tail, _ = self._bus.tail
        self._next = n + 1
        if tail is not None:
            self._squeeze_in(tail.envelopes(n, n)[0])
        if self._queue:
            self.wake_in_turn()

    def keep(self, last: int) -> None:
        """Queue envelopes of the ephemeral events up to number *last*; called by the bus before it may drop them."""
        self._unfold()
        tail, _ = self._bus.tail
        if tail is not None and self._next <= last and self.hears_deltas:
            self._queue += tail.envelopes(self._next, last)
            self._next = last + 1

    def _unfold(self) -> None:
        """Replace the runs in the queue by their envelopes."""
        if self._runs:
            folded, self._queue = self._queue, []
            self._runs = self._folded = 0
            for item in folded:
                self._queue += item.tail.envelopes(item.first, item.last) if isinstance(item, EphemeralRun) else [item]

    def wake_in_turn(self) -> None:
        """Wake the reader through the gate, as ephemeral events may concern many subscribers; called by the bus."""
        if self.task is not None and not self._at_gate:
            self._at_gate = True
            self._bus.hearing.enter(self.wake)

    def wake(self) -> None:
        """Wake the reader: there is something to read. Called by the bus and by its gate."""
        self._at_gate = False
        task = self.task
        if task is not None:
            self.task = None
            trio.lowlevel.reschedule(task)

    def _squeeze_in(self, envelope: Envelope) -> None:
        """Queue an event of the wanted types; without room for it, merge it with another one, or leave it out."""
        if self._types is not None and not isinstance(envelope.event, self._types):
            return
        if self._lost_to is None and len(self._queue) < self._capacity:
            self._queue.append(envelope)
        elif self._lost_to is None and self._merged(envelope):
            self.merged += 1
        else:
            self.dropped += 1
            self._room = 0
            self._lost_to = envelope.cursor

    def _merged(self, envelope: Envelope) -> bool:
        """Merge a delta into the last queued one of the same type, if the policy merges; return whether it did."""
        last = self._queue[-1]
        event = envelope.event
        if (
            isinstance(last, EphemeralRun)
            or self._policy != "coalesce"
            or type(last.event) is not type(event)
            or last.seq != envelope.seq
        ):
            return False
        if not isinstance(event, _DELTAS) or not isinstance(last.event, _DELTAS):
            return False
        if len(last.event.delta) >= MAX_MERGED:
            return False
        self._queue[-1] = envelope.but(event=event.but(delta=last.event.delta + event.delta))
        return True

    def let_go(self) -> None:
        """Drop the queued live events as if there had been no room for them; the policy decides how reading goes on.

        No-op if none is queued.
        """
        if self.waiting:
            self.dropped += self.waiting
            self._queue.clear()
            self._runs = self._folded = self._room = 0
            self._next, self.room_to = self._bus.tail[1] + 1, -1
            self._lost_to = self._bus.cursor

    def end(self) -> None:
        """End the subscription: no more events come. Called by the bus."""
        self.keep(self._bus.tail[1])
        self._ended = True
        self.wake()

    # To the subscriber

    def __aiter__(self) -> Self:
        if not self._entered:
            raise NotEntered
        return self

    async def __anext__(self) -> Envelope:
        if self._barred is not None:
            raise self._barred
        queue = self._queue
        if queue and self._past is None and type(first := queue[0]) is Envelope:  # the usual case, for speed
            del queue[0]
            self._last_out = first
            return first
        self._barred = AlreadyRead
        try:
            while True:
                if self._past is not None:
                    again = await self._past.next()
                    if again is not None:
                        return self._out(again)
                    self._past = None
                if (envelope := self._take_live()) is not None:
                    return envelope
                if self._is_too_slow:
                    raise SubscriberTooSlow(self.position.seq, self.position.n)
                if self._lost_to is not None:
                    gap = self._catch_up(self._lost_to)
                    if gap is not None:
                        return gap
                    continue
                if self._ended:
                    raise StopAsyncIteration
                self.task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._leave)
        finally:
            if self._barred is AlreadyRead:
                self._barred = None

    async def next_past(self) -> Envelope | None:
        """Return the next event from before the subscription was entered; `None` after the last of them."""
        if self._barred is not None:
            raise self._barred
        if self._past is None:
            return None
        self._barred = AlreadyRead
        try:
            again = await self._past.next()
        finally:
            if self._barred is AlreadyRead:
                self._barred = None
        if again is None:
            self._past = None
            return None
        return self._out(again)

    def next_now(self) -> Envelope | None:
        """Return the next event without waiting, for a reader that handles many events at once.

        `None` may mean that no event is there yet, that no more come, or that some were lost: `async for` finds out
        which.
        """
        if self._barred is not None:
            return None
        if self._past is None:
            return self._take_live()
        again = self._past.next_now()
        return None if again is None else self._out(again)

    def _take_live(self) -> Envelope | None:
        """Remove and return the next live event; `None` if none is queued."""
        if not self._queue:
            tail, last = self._bus.tail
            if tail is not None and self._next <= last:
                self.keep(last)
        while self._queue:
            first = self._queue.pop(0)
            if not isinstance(first, EphemeralRun):
                self._last_out = first
                return first
            self._runs -= 1
            self._folded -= first.last - first.first
            self._queue[:0] = first.tail.envelopes(first.first, first.last)
        return None

    def _out(self, envelope: Envelope) -> Envelope:
        """Return *envelope*, which a replay has read, and make it the subscriber's position unless it is a `Gap`."""
        if not isinstance(envelope.event, Gap):
            self._last_out = envelope
        return envelope

    @property
    def position(self) -> Cursor:
        """Position after the last event that the subscriber got."""
        return self._start if self._last_out is None else max(self._start, self._last_out.cursor)

    def _catch_up(self, lost_to: Cursor) -> Envelope | None:
        """Called when the queue is empty after events were dropped: begin to read them again, or return their `Gap`."""
        self._lost_to = None
        self._room = self._capacity if self._types is None else 0
        position = self.position
        if self._policy == "coalesce":
            self._go_back(position)
            return None
        self._start = lost_to
        return gap_between(self._bus.session_id, position, lost_to)

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        """Forget the waiting task: called by Trio when it is cancelled."""
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED

"""One subscriber's view of a session's events, and the policies for a subscriber that falls behind."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

import trio

from agentrail.errors import AlreadyLeft, AlreadyRead, NotEntered, SubscriberTooSlow
from agentrail.hints import AsyncOnly
from agentrail.reprs import in_brackets, listed
from agentrail.runtime.events.log import EventLog, Stretch
from agentrail.runtime.events.replay import Replay, gap_between
from agentrail.values.events.envelope import Cursor, Envelope, Ephemeral, Event
from agentrail.values.events.plugins import Gap
from agentrail.values.events.response import MessageDelta, ThinkingDelta

CAPACITY: Final = 1024
"""How many events may wait for one subscriber, unless it gives a `capacity`; with more, its policy is applied."""

MAX_MERGED: Final = 16 * 1024
"""The most characters of a merged delta; beyond it the subscriber counts as fallen behind."""

_DELTAS = (MessageDelta, ThinkingDelta)


class Subscription(AsyncOnly):
    """One subscriber's view of a session: `async with` it, then `async for` over it.

    It follows the event log from a place on. Who wants all events reads them there. Who wants events of some types, or
    has no room for more, has those that wait put aside, so that the log need not be held for it. A `Replay` reads what
    was before, or had no room.
    """

    __slots__ = (
        "_at_gate",
        "_barred",
        "_capacity",
        "_ended",
        "_entered",
        "_index",
        "_is_behind",
        "_last_out",
        "_log",
        "_policy",
        "_queue",
        "_replay",
        "_since",
        "_start",
        "_stretch",
        "_types",
        "dropped",
        "hears_deltas",
        "merged",
        "task",
    )

    def __init__(
        self,
        log: EventLog,
        *,
        since: Cursor | None,
        types: tuple[type[Event], ...] | None,
        policy: str,
        capacity: int,
    ) -> None:
        self._log = log
        self._since = since
        self._types = types
        self._policy = policy
        self._capacity = capacity
        # *types* may have a class of ephemeral events, or a base class of them, such as `Event`.
        self.hears_deltas = types is None or any(issubclass(t, Ephemeral) or issubclass(Ephemeral, t) for t in types)
        self._queue: list[Envelope] = []  # live events that were put aside, or read together
        self._stretch: Stretch | None = None  # where all further ones are; `None` if they are put aside as they come
        self._index = 0  # of the next one
        self._replay: Replay | None = None
        self._start = Cursor(0)
        self._last_out: Envelope | None = None
        self._is_behind = False  # whether events had no room; further ones are dropped until the queue was read
        self._entered = self._ended = False
        self._barred: type[AlreadyLeft | AlreadyRead] | None = None
        self.merged = self.dropped = 0  # how many deltas were merged with others, and how many events had no room
        self.task: trio.lowlevel.Task | None = None
        self._at_gate = False

    @in_brackets
    def __repr__(self) -> str:
        has_left = self._barred is AlreadyLeft
        over = "left" if has_left else "too slow" if self._is_too_slow else "ended" if self._is_over else ""
        summary = f"{self._log.session_id!r} {self.waiting} of {self._capacity} wait"
        return listed(summary, over if self._entered else "not entered")

    async def __aenter__(self) -> Self:
        """Start to receive events."""
        self._entered = True
        self._start = self._log.cursor
        self._follow()
        if self._since is not None:
            self._go_back(min(self._since, self._start))  # a cursor ahead of the stream counts as its end
        self._log.join(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to receive events."""
        self._barred, self._stretch = AlreadyLeft, None
        self._log.leave(self)

    def _follow(self) -> None:
        """Follow the log from its end on."""
        self._stretch, self._index = self._log.newest if self._types is None else None, self._log.end

    def _go_back(self, since: Cursor) -> None:
        """Continue by reading the events after *since* again, with a `Gap` for those no longer kept."""
        self._replay = Replay(self._log, since, self._types, with_deltas=self.hears_deltas)
        self._start = since

    def wants(self, kind: type[Event]) -> bool:
        """Whether events of the class *kind* are among those that the subscriber gets."""
        return self._types is None or issubclass(kind, self._types)

    @property
    def _is_too_slow(self) -> bool:
        """Whether the subscriber is to be disconnected for falling behind, after it has read what is queued."""
        return self._is_behind and self._policy == "disconnect"

    @property
    def _is_over(self) -> bool:
        """Whether no more events come."""
        return self._ended or self._log.closed

    @property
    def waiting(self) -> int:
        """Number of live events that wait to be taken."""
        return len(self._queue) + (0 if self._stretch is None else self._log.end - self._index)

    # From the log

    def offer(self, stretch: Stretch, count: int) -> int:
        """Leave the newest *count* events in the log if they have room, else put them aside, or apply the policy.

        They are the last of *stretch*. Return for how many further ephemeral ones there is room in the log. Called by
        the log.
        """
        end = stretch.start + len(stretch.events)
        if self._stretch is None:
            for envelope in stretch.envelopes(end - count, end):
                self._put_aside(envelope)
            if not self._queue:
                return 0
        elif self._is_behind or len(self._queue) + end - self._index > self._capacity:
            while envelopes := self._next_in_log():
                for envelope in envelopes:
                    self._put_aside(envelope)
        if self.task is not None:
            if not stretch.is_ephemeral:
                self.wake()
            elif not self._at_gate:  # ephemeral events may concern many subscribers
                self._at_gate = True
                self._log.hearing.enter(self.wake)
        return 0 if self._stretch is None or self._is_behind else self._capacity - len(self._queue) - end + self._index

    def wake(self) -> None:
        """Wake the reader: there is something to read. Called by the log and by the gate."""
        self._at_gate = False
        task = self.task
        if task is not None:
            self.task = None
            trio.lowlevel.reschedule(task)

    def _put_aside(self, envelope: Envelope) -> None:
        """Queue an event of the wanted types; without room for it, merge it with another one, or leave it out."""
        if self._types is not None and not isinstance(envelope.event, self._types):
            return
        if not self._is_behind and len(self._queue) < self._capacity:
            self._queue.append(envelope)
        elif not self._is_behind and self._merged(envelope):
            self.merged += 1
        else:
            self.dropped += 1
            self._is_behind = True

    def _merged(self, envelope: Envelope) -> bool:
        """Merge a delta into the last queued one of the same type, if the policy merges; return whether it did."""
        last = self._queue[-1]
        event = envelope.event
        if self._policy != "coalesce" or type(last.event) is not type(event) or last.seq != envelope.seq:
            return False
        if not isinstance(event, _DELTAS) or not isinstance(last.event, _DELTAS):
            return False
        if len(last.event.delta) >= MAX_MERGED:
            return False
        self._queue[-1] = envelope.but(event=event.but(delta=last.event.delta + event.delta))
        return True

    def let_go(self) -> None:
        """Drop the live events that wait as if there had been no room for them; the policy decides how reading goes on.

        No-op if none waits.
        """
        if self.waiting:
            self.dropped += self.waiting
            self._queue.clear()
            self._follow()
            self._is_behind = True
            self._log.untold_until = 0

    def end(self) -> None:
        """End the subscription, after the events that wait."""
        self._ended = True
        self.wake()

    # To the subscriber

    def __aiter__(self) -> Self:
        if not self._entered:
            raise NotEntered
        return self

    async def __anext__(self) -> Envelope:
        if self._replay is None and self._barred is None and (self._queue or self._has_read_on()):
            self._last_out = live = self._queue.pop(0)  # the usual case: as `_next_live`, without a call, for speed
            return live
        if self._barred is not None:
            raise self._barred
        self._barred, has_looked = AlreadyRead, self._replay is None
        try:
            while True:
                if self._replay is not None:
                    if (again := await self._replay.next()) is not None:
                        return self._out(again)
                    self._replay = None
                if not has_looked and (envelope := self._next_live()) is not None:
                    return envelope
                has_looked = False
                if self._is_too_slow:
                    raise SubscriberTooSlow(self.position.seq, self.position.n)
                if self._is_behind:
                    if (gap := self._catch_up()) is not None:
                        return gap
                    continue
                if self._is_over:
                    raise StopAsyncIteration
                self.task = trio.lowlevel.current_task()
                self._log.untold_until = 0
                await trio.lowlevel.wait_task_rescheduled(self._leave)
        finally:
            if self._barred is AlreadyRead:
                self._barred = None

    async def next_past(self) -> Envelope | None:
        """Return the next event from before the subscription was entered; `None` after the last of them."""
        if self._barred is not None:
            raise self._barred
        if self._replay is None:
            return None
        self._barred = AlreadyRead
        try:
            again = await self._replay.next()
        finally:
            if self._barred is AlreadyRead:
                self._barred = None
        if again is None:
            self._replay = None
            return None
        return self._out(again)

    def next_now(self) -> Envelope | None:
        """Return the next event without waiting, for a reader that handles many events at once.

        `None` may mean that no event is there yet, that no more come, or that some were lost: `async for` finds out
        which.
        """
        if self._barred is not None:
            return None
        if self._replay is None:
            return self._next_live()
        again = self._replay.next_now()
        return None if again is None else self._out(again)

    def peek_now(self) -> Envelope | None:
        """Return the live event that `next_now` would take; `None` if it would take none, or one that is read again."""
        if self._barred is not None or self._replay is not None or not (self._queue or self._has_read_on()):
            return None
        return self._queue[0]

    def take_now(self, most: int) -> list[Envelope]:
        """Take up to *most* live events that are there, for a reader that passes many on at once.

        None while those are read again that were before, or had no room.
        """
        envelopes: list[Envelope] = []
        if self._barred is None and self._replay is None:
            while len(envelopes) < most and (self._queue or self._has_read_on()):
                room = most - len(envelopes)
                envelopes += self._queue[:room]
                del self._queue[:room]
        if envelopes:
            self._last_out = envelopes[-1]
        return envelopes

    def _out(self, envelope: Envelope) -> Envelope:
        """Return *envelope*, which a replay has read, and make it the subscriber's position unless it is a `Gap`."""
        if not isinstance(envelope.event, Gap):
            self._last_out = envelope
        return envelope

    def _next_live(self) -> Envelope | None:
        """Remove and return the next live event; `None` if none waits."""
        if not self._queue and not self._has_read_on():
            return None
        self._last_out = envelope = self._queue.pop(0)
        return envelope

    def _has_read_on(self) -> bool:
        """Queue the next events of the log; return whether there are any."""
        self._queue = self._next_in_log()
        return bool(self._queue)

    def _next_in_log(self) -> list[Envelope]:
        """Return the next events where the log is read, as far as a stretch goes, and move on; none after the last."""
        stretch, index, end = self._stretch, self._index, self._log.end
        if stretch is None or index >= end:
            return []
        while (following := stretch.following) is not None and index >= following.start:
            stretch = following
        stop = end if following is None else following.start
        self._stretch, self._index = stretch, stop
        return stretch.envelopes(index, stop)

    @property
    def position(self) -> Cursor:
        """Position after the last event that the subscriber got."""
        return self._start if self._last_out is None else max(self._start, self._last_out.cursor)

    def _catch_up(self) -> Envelope | None:
        """Called when the queue is empty after events were dropped: begin to read them again, or return their `Gap`."""
        self._is_behind = False
        position = self.position
        if self._policy == "coalesce":
            self._go_back(position)
            return None
        self._start = self._log.cursor
        return gap_between(self._log.session_id, position, self._start)

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        """Forget the waiting task: called by Trio when it is cancelled."""
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED

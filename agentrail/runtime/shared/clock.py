"""The clock of a supervisor: the time of day, advanced by Trio's clock, so that tests with virtual time work.

Everything under a supervisor takes times from here, Trio's deadlines included. A clock that a user gives to Trio may
show impossible times, and Trio would believe them.

All timers of a supervisor in one task, which sleeps until the earliest of them (a heap).
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import trio

from agentrail.ports.failpoints import reach
from agentrail.reprs import in_brackets, some
from agentrail.values.untrusted_values import TEN_YEARS, number

FURTHEST: Final = 1e11
"""Largest time, in seconds from 0 (about 3,000 years), that a clock may show: beyond it a float loses milliseconds."""


def utc_time(milliseconds: int) -> datetime:
    """Return the time of *milliseconds* since 1970 in UTC; of one that no clock shows, the nearest that one does.

    A stored time may be any number: the session may be a stranger's.
    """
    return datetime.fromtimestamp(min(max(milliseconds, 0), FURTHEST * 1000) / 1000, UTC)


def _usable_time(value: object) -> float | None:
    """Return the time that a clock shows; `None` if it is not a usable time."""
    plain = number(value)
    return float(plain) if plain is not None and -FURTHEST <= plain <= FURTHEST else None


class Steady:
    """Wraps a clock that a user gave to Trio, and counts the seconds it has run.

    The count never falls. If the clock jumps ahead, at most ten years are added, as nothing waits longer. If it goes
    back or shows no time, nothing is added.
    """

    __slots__ = ("_ahead", "_clock", "_last", "_now")

    def __init__(self, clock: trio.abc.Clock) -> None:
        self._clock = clock
        self._last = _usable_time(clock.current_time()) or 0.0
        self._ahead = -self._last
        self._now = 0.0

    def now(self) -> float:
        """Return the seconds counted so far."""
        reading = _usable_time(self._clock.current_time())
        if reading is not None:
            passed = reading - self._last
            step = min(max(passed, 0.0), TEN_YEARS if self._now < FURTHEST else 0.0)
            self._ahead += step - passed
            self._last = reading
        self._now = max(self._now, self._last + self._ahead)
        return self._now

    def deadline(self, at: float) -> float:
        """Return what the user's clock shows at time *at* of this one, if it runs on steadily: a deadline for Trio."""
        return at - self._ahead

    def reached(self, at: float) -> None:
        """Move this clock on to *at*, because Trio has slept until then. No-op if it shows a later time already.

        The user's clock may lag behind Trio: without this, a timer that is due would seem not to be.
        """
        if at > self._now:
            self._now, self._ahead = at, at - self._last


def _same(at: float) -> float:
    """Return *at*: deadlines of Trio's own clocks need no conversion."""
    return at


def _ignore(_: float) -> None:
    """No-op for Trio's own clocks: they show the time by which Trio acts."""


class Clock:
    """Milliseconds since 1970 for records, and seconds of Trio's clock for deadlines."""

    __slots__ = ("_offset", "deadline", "now", "reached")

    def __init__(self) -> None:
        clock = trio.lowlevel.current_clock()
        self.now: Callable[[], float] = clock.current_time
        self.deadline: Callable[[float], float] = _same
        self.reached: Callable[[float], None] = _ignore
        if not type(clock).__module__.startswith("trio."):  # Trio's clocks never go back, and are read often
            steady = Steady(clock)
            self.now, self.deadline, self.reached = steady.now, steady.deadline, steady.reached
        day = time.time()  # noqa: TID251 - the one place where the time of day comes in
        self._offset = max(_usable_time(day) or 0.0, 0.0) - self.now()  # records hold no time before 1970

    def now_ms(self) -> int:
        """Return the time of day, in milliseconds since 1970."""
        return int((self._offset + self.now()) * 1000)

    def ms(self, now: float) -> int:
        """Convert a time of this clock to milliseconds since 1970."""
        return int((self._offset + now) * 1000)

    def moment(self, at_ms: int) -> float:
        """Convert milliseconds since 1970 to a time of this clock, rounded so that a timer never fires too early."""
        return (at_ms + 0.5) / 1000 - self._offset

    def after(self, seconds: float) -> float:
        """Return the time of this clock *seconds* from now."""
        return self.now() + seconds

    def deadline_in(self, seconds: float) -> float:
        """Return a deadline for a Trio cancel scope, *seconds* from now."""
        return self.deadline(self.now() + seconds)


Key = tuple[str, str]

SLACK = 64
"""How many cleared timers may stay in the heap, in addition to as many as are set, before it is cleaned."""


class Timers:
    """Calls plain functions at times of the supervisor's *clock*."""

    __slots__ = ("_counter", "_heap", "_limit", "_live", "_parked", "_task", "_until", "_waiting", "clock")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, Key]] = []
        self._live: dict[str, dict[str, tuple[int, Callable[[], None]]]] = {}
        self._limit = SLACK
        self._counter = 0
        self._until = math.inf
        self._task: trio.lowlevel.Task | None = None
        self._parked = False
        self._waiting: trio.CancelScope | None = None

    @in_brackets
    def __repr__(self) -> str:
        return f"{len(self._heap)} kept, {some(len(self._live), 'owner') or 'no owner'}"

    @property
    def size(self) -> int:
        """Number of timers in the heap, cleared ones included."""
        return len(self._heap)

    def set(self, key: Key, at: float, fire: Callable[[], None]) -> None:
        """Call *fire* at a time of the clock; replaces a timer with the same key."""
        count = self._counter = self._counter + 1
        owner, name = key
        own = self._live.get(owner)
        if own is None:
            own = self._live[owner] = {}
        own[name] = (count, fire)
        heapq.heappush(self._heap, (at, count, key))
        if len(self._heap) > self._limit:
            self._sweep()
        if at < self._until and self._parked and self._task is not None:
            if self._waiting is None:
                self._parked = False
                trio.lowlevel.reschedule(self._task)
            else:  # cheaper than waking the task: most timers, such as that of an abort, are cleared soon
                self._until = at
                self._waiting.deadline = self.clock.deadline(at)
        reach("TIMER_SET")

    def clear(self, key: Key) -> None:
        """Delete a timer. No-op if it is not set."""
        self._take(key)
        reach("TIMER_CLEARED")

    def clear_all(self, owner: str) -> None:
        """Delete all timers whose key begins with *owner*."""
        self._live.pop(owner, None)

    def _take(self, key: Key) -> Callable[[], None] | None:
        """Remove a timer and return its callback; `None` if it is not set."""
        owner, name = key
        own = self._live.get(owner)
        timer = None if own is None else own.pop(name, None)
        if timer is None:
            return None
        if not own:
            del self._live[owner]
        return timer[1]

    async def run(self) -> None:
        """Fire timers as they come due; runs until cancelled."""
        self._task = trio.lowlevel.current_task()
        while True:
            now = self.clock.now()
            while self._heap and self._heap[0][0] <= now:
                timer = heapq.heappop(self._heap)
                fire = self._take(timer[2]) if self._is_live(timer) else None
                if fire is not None:
                    reach("TIMER_FIRED")
                    fire()
            self._drop_dead()
            self._until = self._heap[0][0] if self._heap else math.inf
            self._parked = True
            await self._wait(self._until)

    async def _wait(self, until: float) -> None:
        """Sleep until a time, or until an earlier timer is set."""
        if until == math.inf:  # no cancel scope: Trio would cancel it at once while a user's clock shows infinity
            await trio.lowlevel.wait_task_rescheduled(self._leave)
            return
        with trio.CancelScope(deadline=self.clock.deadline(until)) as self._waiting:
            await trio.lowlevel.wait_task_rescheduled(self._leave)
        waiting, self._waiting = self._waiting, None
        if waiting.cancelled_caught:
            self.clock.reached(self._until)  # Trio slept until this time, even if the user's clock shows an earlier one

    def _drop_dead(self) -> None:
        """Drop cleared timers from the front, so that the task does not wake for them."""
        while self._heap and not self._is_live(self._heap[0]):
            heapq.heappop(self._heap)
        self._limit = min(self._limit, SLACK + 2 * len(self._heap))

    def _sweep(self) -> None:
        """Drop all cleared timers; the next sweep is due when `SLACK` more timers are cleared than are set now."""
        live = {count for own in self._live.values() for count, _ in own.values()}
        self._heap = [timer for timer in self._heap if timer[1] in live]
        heapq.heapify(self._heap)
        self._limit = SLACK + 2 * len(self._heap)

    def _is_live(self, timer: tuple[float, int, Key]) -> bool:
        """Whether a timer of the heap is still set, and was not replaced."""
        owner, name = timer[2]
        own = self._live.get(owner)
        live = None if own is None else own.get(name)
        return live is not None and live[0] == timer[1]

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        """Forget the waiting task: called by Trio when it is cancelled."""
        self._parked = False
        return trio.lowlevel.Abort.SUCCEEDED

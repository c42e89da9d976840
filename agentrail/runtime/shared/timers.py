"""All timers of a supervisor in one task, which sleeps until the earliest of them (a heap)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import trio

from agentrail.ports.failpoints import reach
from agentrail.reprs import in_brackets, some
from agentrail.runtime.shared.clock import Clock

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

    def set(self, key: Key, due: float, fire: Callable[[], None]) -> None:
        """Call *fire* at a time of the clock; replaces a timer with the same key."""
        count = self._counter = self._counter + 1
        owner, name = key
        by_name = self._live.get(owner)
        if by_name is None:
            by_name = self._live[owner] = {}
        by_name[name] = (count, fire)
        heapq.heappush(self._heap, (due, count, key))
        if len(self._heap) > self._limit:
            self._sweep()
        if due < self._until and self._parked and self._task is not None:
            if self._waiting is None:
                self._parked = False
                trio.lowlevel.reschedule(self._task)
            else:  # cheaper than waking the task: most timers, such as that of an abort, are cleared soon
                self._until = due
                self._waiting.deadline = self.clock.deadline(due)
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
        by_name = self._live.get(owner)
        timer = None if by_name is None else by_name.pop(name, None)
        if timer is None:
            return None
        if not by_name:
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
        live = {count for by_name in self._live.values() for count, _ in by_name.values()}
        self._heap = [timer for timer in self._heap if timer[1] in live]
        heapq.heapify(self._heap)
        self._limit = SLACK + 2 * len(self._heap)

    def _is_live(self, timer: tuple[float, int, Key]) -> bool:
        """Whether a timer of the heap is still set, and was not replaced."""
        owner, name = timer[2]
        by_name = self._live.get(owner)
        live = None if by_name is None else by_name.get(name)
        return live is not None and live[0] == timer[1]

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        """Forget the waiting task: called by Trio when it is cancelled."""
        self._parked = False
        return trio.lowlevel.Abort.SUCCEEDED

"""The queue of requests that wait near a limit: which of them looks next for room, and how long they have waited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import trio

Limits: TypeAlias = tuple[str, bool]
"""Limits that a request has to fit: the id of the session that has them, and whether those of its turn count."""


class WaitClock:
    """Counts the seconds in which at least one request of a session, or of a sub-agent below it, waits."""

    __slots__ = ("_before", "_now", "_since", "_waiting")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._waiting = 0
        self._before = self._since = 0.0

    @property
    def runs(self) -> bool:
        """Whether a request waits now."""
        return self._waiting > 0

    @property
    def seconds(self) -> float:
        """Seconds counted so far."""
        return self._before + (self._now() - self._since if self._waiting else 0.0)

    def begin(self) -> None:
        """Count one more request that waits."""
        if not self._waiting:
            self._since = self._now()
        self._waiting += 1

    def end(self) -> None:
        """Count one less."""
        if self._waiting == 1:
            self._before = self.seconds
        self._waiting -= 1


class Waiter:
    """A request in a `LimitQueue`."""

    __slots__ = ("called", "clocks", "full", "line")

    def __init__(self, line: tuple[str, ...]) -> None:
        self.line = line  # the ids of its session and of those above
        self.full: Limits | None = None  # those that had no room when it looked last
        self.clocks: tuple[WaitClock, ...] = ()  # those that count that it waits
        self.called: trio.Event | None = None


class LimitQueue:
    """The requests of a family that may have to wait, in the order in which they came.

    One at a time looks whether there is room. If there is, it is sent, and the next one looks. If not, it stays, and
    those after it that have found the same limits full are passed over. After a change all look again, in order.
    """

    __slots__ = ("_full", "_looks", "_waiters", "clocks")

    def __init__(self) -> None:
        self.clocks: dict[str, WaitClock] = {}
        """How long requests have waited, by the id of each sub-agent that runs and has had such requests."""
        self._waiters: list[Waiter] = []
        self._looks: Waiter | None = None  # whose turn it is: its task is awake, or about to wake
        self._full: set[Limits] = set()  # those that had no room since the last change

    def join(self, line: tuple[str, ...]) -> Waiter:
        """Add a request of the session at the end of *line* after the others."""
        waiter = Waiter(line)
        self._waiters.append(waiter)
        if self._looks is None:
            self._call(len(self._waiters) - 1)
        return waiter

    async def turn(self, waiter: Waiter) -> None:
        """Wait until it is the turn of *waiter* to look."""
        while self._looks is not waiter:
            waiter.called = trio.Event()
            await waiter.called.wait()

    def stay(self, waiter: Waiter, full: Limits, now: Callable[[], float]) -> None:
        """Let the next one look, as *waiter* has found the limits *full*; *now* returns the time."""
        waiter.full = full
        if not waiter.clocks:
            waiter.clocks = tuple([self.clocks.setdefault(child, WaitClock(now)) for child in waiter.line[1:]])
            for clock in waiter.clocks:
                clock.begin()
        self._full.add(full)
        self._call(self._waiters.index(waiter) + 1)

    def leave(self, waiter: Waiter) -> None:
        """Remove *waiter*, as its request is sent or given up. If it was its turn, the next one looks."""
        for clock in waiter.clocks:
            clock.end()
        at = self._waiters.index(waiter)
        del self._waiters[at]
        if self._looks is waiter:
            self._call(at)

    def look_again(self) -> None:
        """Have all look again, in order: what is used, or may be used, has changed."""
        if self._waiters:
            self._full.clear()
            self._call(0)

    def _call(self, first: int) -> None:
        """Make it the turn of the first waiter from number *first* on whose limits are not known as full."""
        waiters = self._waiters[first:]
        self._looks = next((waiter for waiter in waiters if waiter.full not in self._full), None)
        if self._looks is not None and self._looks.called is not None:
            self._looks.called.set()

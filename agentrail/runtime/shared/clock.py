"""The one clock of a supervisor: time of day that agrees with Trio's clock, so that virtual time is virtual everywhere.

Nothing else under a supervisor compares times. Deadlines for Trio are made here too, from times of this clock: a clock
that a user has given to Trio may show anything, and Trio believes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import trio

from agentrail.values.foreign import TEN_YEARS, number

FURTHEST: Final = 1e11
"""Seconds from 0, some 3,000 years, that a clock may show: further off, a float has no room for milliseconds."""


def _shown(found: object) -> float | None:
    """Return what a clock shows; `None` if it is no time."""
    plain = number(found)
    return float(plain) if plain is not None and -FURTHEST <= plain <= FURTHEST else None


class Steady:
    """Counts the seconds that a user's clock has run for.

    They never fall. A clock that jumps ahead adds ten years at most, because nothing waits for longer. One that goes
    back, or shows no time, adds nothing.
    """

    __slots__ = ("_ahead", "_clock", "_last", "_now")

    def __init__(self, clock: trio.abc.Clock) -> None:
        self._clock = clock
        self._last = _shown(clock.current_time()) or 0.0
        self._ahead = -self._last
        self._now = 0.0

    def now(self) -> float:
        """Return how many seconds it has run for."""
        shown = _shown(self._clock.current_time())
        if shown is not None:
            passed = shown - self._last
            taken = min(max(passed, 0.0), TEN_YEARS if self._now < FURTHEST else 0.0)
            self._ahead += taken - passed
            self._last = shown
        self._now = max(self._now, self._last + self._ahead)
        return self._now

    def deadline(self, at: float) -> float:
        """Return what the clock shows at a time of this one, if it neither jumps nor goes back until then."""
        return at - self._ahead

    def reached(self, at: float) -> None:
        """Take note that Trio has come to a time of this clock, whatever the clock shows."""
        if at > self._now:
            self._now, self._ahead = at, at - self._last


def _same(at: float) -> float:
    return at


def _known(_: float) -> None:
    """No-op: clocks of Trio's own show the time that Trio acts by."""


class Clock:
    """Milliseconds since 1970, and seconds that pass as those of Trio's clock."""

    __slots__ = ("_offset", "deadline", "now", "reached")

    def __init__(self) -> None:
        clock = trio.lowlevel.current_clock()
        self.now: Callable[[], float] = clock.current_time
        self.deadline: Callable[[float], float] = _same
        self.reached: Callable[[float], None] = _known
        if not type(clock).__module__.startswith("trio."):  # its own never go back, and a chunk asks them each time
            steady = Steady(clock)
            self.now, self.deadline, self.reached = steady.now, steady.deadline, steady.reached
        day = time.time()  # noqa: TID251 - the one place where the time of day comes in
        self._offset = max(_shown(day) or 0.0, 0.0) - self.now()  # records hold no time before 1970

    def now_ms(self) -> int:
        """Return the time of day."""
        return int((self._offset + self.now()) * 1000)

    def ms(self, now: float) -> int:
        """Return the time of day at a time of this clock."""
        return int((self._offset + now) * 1000)

    def moment(self, at_ms: int) -> float:
        """Return the time of this clock at a time of day, in a way that is never too early."""
        return (at_ms + 0.5) / 1000 - self._offset

    def after(self, seconds: float) -> float:
        """Return the time of this clock *seconds* from now."""
        return self.now() + seconds

    def deadline_in(self, seconds: float) -> float:
        """Return the deadline for Trio of what may take *seconds* from now."""
        return self.deadline(self.now() + seconds)

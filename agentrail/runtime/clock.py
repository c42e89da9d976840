"""Time of day that agrees with Trio's clock, so that virtual time is virtual everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import trio

from agentrail.values.outside import TEN_YEARS, number

MOST: Final = 10 * TEN_YEARS
"""Seconds that a clock may show: Trio's own begin anywhere in the first century."""


class Steady:
    """Asks a clock that somebody else has made: time never goes back, and what is no time is the time before."""

    __slots__ = ("_clock", "_last")

    def __init__(self, clock: trio.abc.Clock) -> None:
        self._clock = clock
        self._last = 0.0

    def now(self) -> float:
        """Return the time."""
        told = number(self._clock.current_time())
        if told is not None and self._last < told <= MOST:
            self._last = float(told)
        return self._last


class Clock:
    """Milliseconds since 1970, moving as Trio's clock moves."""

    __slots__ = ("_offset", "now")

    def __init__(self) -> None:
        clock = trio.lowlevel.current_clock()
        known = type(clock).__module__.startswith("trio.")  # Trio's own never go back, and a chunk asks them each time
        self.now: Callable[[], float] = clock.current_time if known else Steady(clock).now
        self._offset = time.time() - self.now()  # noqa: TID251 - the one place where the time of day comes in

    def now_ms(self) -> int:
        """Return the time of day."""
        return int((self._offset + self.now()) * 1000)

    def ms(self, now: float) -> int:
        """Return the time of day at a time of Trio's clock."""
        return int((self._offset + now) * 1000)

    def trio_time(self, at_ms: int) -> float:
        """Return the time of Trio's clock at a time of day, in a way that is never too early."""
        return (at_ms + 0.5) / 1000 - self._offset

    def after(self, seconds: float) -> float:
        """Return the time of Trio's clock *seconds* from now."""
        return self.now() + seconds

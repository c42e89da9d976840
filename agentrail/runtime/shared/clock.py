"""The clock of a supervisor: the time of day, advanced by Trio's clock, so that tests with virtual time work.

Everything under a supervisor takes times from here, Trio's deadlines included. A clock that a user gives to Trio may
show impossible times, and Trio would believe them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import trio

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

    def deadline(self, time: float) -> float:
        """Return what the user's clock shows at *time* of this one, if it runs on steadily: a deadline for Trio."""
        return time - self._ahead

    def reached(self, time: float) -> None:
        """Move this clock on to *time*, because Trio has slept until then. No-op if it shows a later time already.

        The user's clock may lag behind Trio: without this, a timer that is due would seem not to be.
        """
        if time > self._now:
            self._now, self._ahead = time, time - self._last


def _same(time: float) -> float:
    """Return *time*: deadlines of Trio's own clocks need no conversion."""
    return time


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

    def until(self, at_ms: int) -> float:
        """Return a time of this clock before which `ms` gives no more than *at_ms*, just short of the next one."""
        return (at_ms + 0.99) / 1000 - self._offset

    def trio_time(self, at_ms: int) -> float:
        """Convert milliseconds since 1970 to a time of this clock, rounded so that a timer never fires too early."""
        return (at_ms + 0.5) / 1000 - self._offset

    def after(self, seconds: float) -> float:
        """Return the time of this clock *seconds* from now."""
        return self.now() + seconds

    def deadline_in(self, seconds: float) -> float:
        """Return a deadline for a Trio cancel scope, *seconds* from now."""
        return self.deadline(self.now() + seconds)

"""Time of day that agrees with Trio's clock, so that virtual time is virtual everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable

import trio


class Clock:
    """Milliseconds since 1970, moving as Trio's clock moves."""

    __slots__ = ("_offset", "now")

    def __init__(self) -> None:
        self.now: Callable[[], float] = trio.lowlevel.current_clock().current_time
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

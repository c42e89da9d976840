"""Time of day that agrees with Trio's clock, so that virtual time is virtual everywhere."""

from __future__ import annotations

import time

import trio


class Clock:
    """Milliseconds since 1970, moving as Trio's clock moves."""

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset = time.time() - trio.current_time()  # noqa: TID251 - the one place where the time of day comes in

    def now_ms(self) -> int:
        """Return the time of day."""
        return int((self._offset + trio.current_time()) * 1000)

    def trio_time(self, at_ms: int) -> float:
        """Return the time of Trio's clock at a time of day, in a way that is never too early."""
        return (at_ms + 0.5) / 1000 - self._offset

    def after(self, seconds: float) -> float:
        """Return the time of Trio's clock *seconds* from now."""
        return trio.current_time() + seconds

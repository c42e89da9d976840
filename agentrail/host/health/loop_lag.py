"""`LoopLag`: measures how late the event loop wakes a task that wants to be woken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import trio

TICK: Final = 0.5
"""Seconds between two measurements of how late the loop is."""

TICKS: Final = 20
"""Measurements that count: those of the last ten seconds."""


class LoopLag:
    """Measures how late the loop wakes a task that wants to be woken."""

    def __init__(self) -> None:
        self._late: deque[float] = deque([0.0], TICKS)
        self.when_measured: Callable[[float], None] = lambda _: None
        """Called with each measurement, in seconds."""

    @property
    def worst(self) -> float:
        """The longest delay of a wake-up in the last ten seconds, in seconds."""
        return max(self._late)

    async def measure(self) -> None:
        """Body of the task that measures, until it is cancelled."""
        while True:
            due = trio.current_time() + TICK
            await trio.sleep_until(due)
            late = trio.current_time() - due
            self._late.append(late)
            self.when_measured(late)

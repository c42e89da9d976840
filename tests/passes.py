"""`Passes`: how many passes Trio's scheduler makes."""

from __future__ import annotations

import trio


class Passes(trio.abc.Instrument):
    """Counts the passes of the scheduler."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        """Count one."""
        self.count += 1

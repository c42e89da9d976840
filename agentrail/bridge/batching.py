"""Gathers what Trio has for the loops of the program while it works, so that a loop is woken once for many things.

To wake a loop hands the interpreter's lock over: a flood of events, each of which did so, took twice the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import trio

PATIENCE: Final = 0.001
"""Seconds after which loops are woken although Trio still works."""


class Batching(trio.abc.Instrument):
    """Instrument of the Trio run: wakes loops when Trio has nothing more to do, or after a moment."""

    def __init__(self) -> None:
        self._thread: int | None = None
        """Ident of the Trio thread, while the run lasts; `None` if loops are woken at once."""
        self._waiting: list[Callable[[], None]] = []
        """Functions that wake the loops which have to be woken."""
        self._since = 0.0
        """When the first of them had something to deliver."""

    def begin(self) -> None:
        """Gather from now on; called in the Trio thread."""
        self._thread = threading.get_ident()

    def end(self) -> None:
        """Wake all, and from now on each at once: there may be no further pass."""
        self._thread = None
        self._wake()

    def takes(self, wake: Callable[[], None]) -> bool:
        """Note that a loop is to be woken by *wake*; return `False` if the caller has to wake it."""
        if threading.get_ident() != self._thread:
            return False
        if not self._waiting:
            self._since = time.perf_counter()
        self._waiting.append(wake)
        return True

    def before_io_wait(self, timeout: float) -> None:
        """Wake the loops if Trio is about to wait, or has worked for long; called by Trio after each pass."""
        if self._waiting and (timeout > 0 or time.perf_counter() - self._since > PATIENCE):
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

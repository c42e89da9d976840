"""Shares the interpreter's lock between Trio's thread and the loop of the program, if one of them always has work.

A thread that always has work gives the lock up for microseconds at a time, and the other one wakes too late, for ever:
with Trio saturated, a loop stood still for up to 1.9 s. So each of them sleeps for a moment now and then, which hands
the lock over. `sys.setswitchinterval` is the program's own, and did less.
"""

from __future__ import annotations

import time
from typing import Final

import trio

from agentrail.bridge.waiters import LoopOutbox

MOMENT: Final = 50e-6
"""Seconds of a sleep, in which the other thread takes the lock."""

TRIO_BUSY: Final = 0.002
"""Seconds that Trio may work without a pause."""

LOOP_BUSY: Final = 0.005
"""Seconds between two sleeps of the loop, while there is work on Trio."""

LEASE: Final = 0.05
"""Seconds that the loop goes on to share after the last work on Trio."""


class LockSharing(trio.abc.Instrument):
    """Instrument of the Trio run: pauses Trio, and has the loop of the program pause while there is work on Trio."""

    def __init__(self, outbox: LoopOutbox | None) -> None:
        self._outbox = outbox
        """The way into the loop of the program; `None` if it has none."""
        self._worked_since = time.perf_counter()
        """When Trio paused last."""
        self._waits_since = 0.0
        """When Trio began to wait for the world."""
        self._told_at = 0.0
        """When the loop was told last that there is work on Trio."""
        self._shares_until = 0.0
        """Until when the loop shares the lock; set and read in the loop alone."""
        self._is_sharing = False
        """Whether the loop is going to pause; set and read in the loop alone."""

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's signature
        """Pause if Trio has worked for long; called by Trio after each pass."""
        now = time.perf_counter()
        if now - self._worked_since > TRIO_BUSY:
            time.sleep(MOMENT)  # noqa: ASYNC251 - it is to block the thread
            now = self._worked_since = time.perf_counter()
        self._waits_since = now
        if self._outbox is not None and now - self._told_at > LEASE / 2:
            self._told_at = now
            self._outbox.put(self._share)

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's signature
        """Note a pause; called by Trio."""
        now = time.perf_counter()
        if now - self._waits_since > MOMENT:
            self._worked_since = now

    def _share(self) -> None:
        """Begin to pause now and then, or go on with it; runs in the loop."""
        self._shares_until = time.perf_counter() + LEASE
        if not self._is_sharing and self._outbox is not None:
            self._is_sharing = True
            self._outbox.loop.call_later(LOOP_BUSY, self._pause)

    def _pause(self) -> None:
        """Pause, and do so again later unless there is no work on Trio any more; runs in the loop."""
        self._is_sharing = time.perf_counter() < self._shares_until
        if self._is_sharing and self._outbox is not None:
            time.sleep(MOMENT)
            self._outbox.loop.call_later(LOOP_BUSY, self._pause)

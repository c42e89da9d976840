"""A thread that looks at the step that runs: nothing else can say what blocks the loop while it is blocked."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from typing import Final, TypeAlias

log = logging.getLogger("agentrail.watchdog")

LOOKS: Final = 0.02
"""Seconds between two looks."""

SLOW: Final = 0.05
"""Seconds after which a step is named in the log, with the stack of its thread."""

BLOCKED: Final = 1.0
"""Seconds after which it is named as an error, and reported as an event once it has ended."""

Crumb: TypeAlias = tuple[str, str, float]
"""Which session, which kind of message, since when."""


class Watchdog:
    """Names the step of a session that holds up all the others."""

    __slots__ = ("_done", "_loop", "_named", "_thread", "step")

    def __init__(self) -> None:
        self.step: Crumb | None = None
        self._named: tuple[Crumb | None, float] = (None, 0.0)
        self._loop = threading.get_ident()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="agentrail-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(LOOKS):
            step = self.step
            if step is not None:
                self._look(step, time.perf_counter() - step[2])

    def _look(self, step: Crumb, elapsed: float) -> None:
        """Name *step* once when it is slow, and once more when it blocks."""
        known, limit = self._named
        limit = SLOW if known is not step else limit
        if elapsed < limit:
            return
        self._named = (step, BLOCKED if elapsed < BLOCKED else float("inf"))
        level = logging.WARNING if elapsed < BLOCKED else logging.ERROR
        frame = sys._current_frames().get(self._loop)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # nothing else shows it
        stack = "" if frame is None or self.step is not step else "".join(traceback.format_stack(frame))
        log.log(level, "session %s: `%s` has held up the loop for %d ms\n%s", *step[:2], elapsed * 1000, stack)

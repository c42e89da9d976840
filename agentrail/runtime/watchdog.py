"""A thread that looks at the step that runs: nothing else can say what blocks the loop while it is blocked."""

from __future__ import annotations

import gc
import logging
import math
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentrail.runtime.alarms import Alarm

log = logging.getLogger("agentrail.watchdog")

SLOW: Final = 0.05
"""Seconds after which a step is named in the log, with the stack of its thread."""

BLOCKED: Final = 1.0
"""Seconds after which it is named as an error, and reported as an event once it has ended."""

PUT_OFF: Final = 0.01
"""Seconds between two times that the alarm is put off: a step may be so much older when it is looked at."""

OLDEST: Final = 2
"""The generation of the garbage collector whose collections look at all objects."""

COLLECTED: Final = (
    "the garbage collector has held up the loop for %d ms, while session %s handled `%s`; "
    "have it come less often, by `agentrail.run` or `gc.set_threshold`, and look at fewer objects, by `gc.freeze`"
)

Crumb: TypeAlias = tuple[str, str, float]
"""Which session, which kind of message, since when."""


class Watchdog:
    """Names the step of a session that holds up all the others."""

    __slots__ = ("_alarm", "_collection", "_loop", "_named", "_put_off", "_thread", "step")

    def __init__(self) -> None:
        self.step: Crumb | None = None
        self._collection = (0.0, 0.0)
        self._named: tuple[Crumb | None, float] = (None, 0.0)
        self._loop = threading.get_ident()
        self._alarm: Alarm | None = None
        self._put_off = 0.0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        from agentrail.runtime.alarms import alarm  # noqa: PLC0415 - ctypes, which only a supervisor needs

        wakes = self._alarm = alarm(SLOW)
        thread = threading.Thread(target=self._watch, args=(wakes,), name="agentrail-watchdog", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._alarm = None
            wakes.close()
            raise
        self._thread = thread
        gc.callbacks.append(self._collecting)

    def close(self) -> None:
        """Look no more."""
        alarm, self._alarm = self._alarm, None
        if alarm is not None and self._thread is not None:
            gc.callbacks.remove(self._collecting)
            alarm.set(0)
            self._thread.join()
            alarm.close()

    def begin(self, session_id: str, kind: str, now: float) -> None:
        """Note that a step begins."""
        self.step = (session_id, kind, now)
        if now - self._put_off > PUT_OFF and self._alarm is not None:
            self._put_off = now
            self._alarm.put_off()

    def _collecting(self, phase: str, info: Mapping[str, int]) -> None:
        """Note when the last full collection began and when it ended: nothing else runs meanwhile."""
        if info["generation"] == OLDEST:
            now = time.perf_counter()
            self._collection = (now, math.inf) if phase == "start" else (self._collection[0], now)

    def collecting(self, since: float, until: float) -> float:
        """Return how many of the seconds of a step the garbage collector took."""
        began, ended = self._collection
        return min(ended, until) - began if began >= since else 0.0

    def _watch(self, alarm: Alarm) -> None:
        """Look whenever it is time, and say when that is next; what the loop has set meanwhile is lost by that.

        So it is never long, and whether all is over is asked behind it.
        """
        while self._alarm is not None:
            alarm.wait()
            again = self._look()
            if again is not None:
                alarm.set(again)

    def _look(self) -> float | None:
        """Name the step that runs once when it is slow, and once more when it blocks; return when to look again.

        `None`: nothing runs, and the next step will put off the alarm.
        """
        step = self.step
        if step is None:
            return None if time.perf_counter() - self._put_off >= SLOW else SLOW
        now = time.perf_counter()
        elapsed = now - step[2]
        known, limit = self._named
        limit = SLOW if known is not step else limit
        if elapsed < limit:
            return min(limit - elapsed, SLOW)
        self._named = (step, BLOCKED if elapsed < BLOCKED else math.inf)
        level = logging.WARNING if elapsed < BLOCKED else logging.ERROR
        taken = self.collecting(step[2], now)
        if taken > elapsed / 2:
            log.log(level, COLLECTED, taken * 1000, *step[:2])
            return SLOW
        frame = sys._current_frames().get(self._loop)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # nothing else shows it
        stack = "" if frame is None or self.step is not step else "".join(traceback.format_stack(frame))
        log.log(level, "session %s: `%s` has held up the loop for %d ms\n%s", *step[:2], elapsed * 1000, stack)
        return SLOW

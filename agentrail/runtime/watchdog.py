"""A thread that looks at the step that runs: nothing else can say what blocks the loop while it is blocked."""

from __future__ import annotations

import gc
import logging
import math
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

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
    "the garbage collector, or what it finalized, has held up the loop for %d ms, while session %s handled `%s`; "
    "have it come less often, by `agentrail.run` or `gc.set_threshold`, and look at fewer objects, by `gc.freeze`"
)

Crumb: TypeAlias = tuple[str, str, float, float]
"""Which session, which kind of message, since when, and for how long collections had lasted by then."""


class Named:
    """What was slow last, and how slow it has to get to be named again."""

    __slots__ = ("_limit", "_step")

    def __init__(self) -> None:
        self._step: Crumb | None = None
        self._limit = SLOW

    def limit(self, step: Crumb) -> float:
        """Return the seconds from which on *step* is to be named."""
        return SLOW if self._step is not step else self._limit

    def level(self, step: Crumb, seconds: float) -> int | None:
        """Return how *step* is to be named in the log, once when it is slow, and once more when it blocks."""
        if seconds < self.limit(step):
            return None
        self._step, self._limit = step, BLOCKED if seconds < BLOCKED else math.inf
        return logging.WARNING if seconds < BLOCKED else logging.ERROR


class Watchdog:
    """Names the step of a session that holds up all the others."""

    __slots__ = ("_alarm", "_collections", "_loop", "_named", "_named_collections", "_put_off", "_thread", "step")

    def __init__(self) -> None:
        self.step: Crumb | None = None
        self._collections = (0.0, math.inf)
        self._named, self._named_collections = Named(), Named()
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
            alarm.set(0)
            self._thread.join()
            alarm.close()
            with suppress(ValueError):  # whoever else has emptied the list
                gc.callbacks.remove(self._collecting)

    def begin(self, session_id: str, kind: str, now: float) -> Crumb:
        """Note that a step begins, and return what `collecting` takes."""
        step = self.step = (session_id, kind, now, self._collections[0])
        if now - self._put_off > PUT_OFF and self._alarm is not None:
            self._put_off = now
            self._alarm.put_off()
        return step

    @trio.lowlevel.enable_ki_protection  # what is raised here is lost, also the interrupt that came meanwhile
    def _collecting(self, phase: str, info: Mapping[str, int]) -> None:
        """Note for how long full collections have lasted, and since when one is under way."""
        if info["generation"] == OLDEST:
            (lasted, since), now = self._collections, time.perf_counter()
            self._collections = (lasted, now) if phase == "start" else (lasted + max(0.0, now - since), math.inf)

    def collecting(self, step: Crumb, until: float) -> float:
        """Return for how many of the seconds of *step* the garbage was collected."""
        lasted, since = self._collections
        return lasted + max(0.0, until - since) - step[3]

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

        `None`: nothing runs, and the next step will put off the alarm. What is collected meanwhile is named by itself.
        """
        step = self.step
        if step is None:
            return None if time.perf_counter() - self._put_off >= SLOW else SLOW
        now = time.perf_counter()
        collecting = self.collecting(step, now)
        elapsed = now - step[2] - collecting
        level = self._named_collections.level(step, collecting)
        if level is not None:
            log.log(level, COLLECTED, collecting * 1000, *step[:2])
        level = self._named.level(step, elapsed)
        if level is not None:
            frame = sys._current_frames().get(self._loop)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # nothing else shows it
            stack = "" if frame is None or self.step is not step else "".join(traceback.format_stack(frame))
            log.log(level, "session %s: `%s` has held up the loop for %d ms\n%s", *step[:2], elapsed * 1000, stack)
        return min(self._named.limit(step) - elapsed, SLOW)

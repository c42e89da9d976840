"""A thread that logs the step or task that blocks the event loop; nothing inside the loop could while it is blocked.

It touches no frame of the loop: steps register themselves, Trio knows the tasks, and `stacks` reads where threads are.
"""

from __future__ import annotations

import gc
import logging
import math
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from agentrail.runtime.diagnosis.loop_probe import Rounds, in_real_time
from agentrail.runtime.diagnosis.stacks import called, stack_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentrail.runtime.diagnosis.alarms import Alarm

log = logging.getLogger("agentrail.watchdog")

SLOW: Final = 0.05
"""Seconds after which a running step is logged, with the stack of its thread."""

BLOCKED: Final = 1.0
"""Seconds after which a running step is logged as an error, and reported as an event when it has ended."""

PUT_OFF: Final = 0.01
"""Seconds between two times that the alarm is put off: a step may be so much older when it is looked at."""

AWAKE: Final = 0.25
"""Seconds after a loop was woken until it is asked to come round, unless a step begins and puts that off."""

CLOSING: Final = 5.0
"""Seconds to wait for the thread to end: whatever writes the log may hold it up."""

OLDEST: Final = 2
"""The generation of the garbage collector whose collections look at all objects."""

HELD_UP: Final = "%s has held up the loop for %d ms\n%s"

COLLECTED: Final = (
    "the garbage collector, or what it finalized, has held up the loop for %d ms, while %s; "
    "have it come less often, by `agentrail.run` or `gc.set_threshold`, and look at fewer objects, by `gc.freeze`"
)

Crumb: TypeAlias = tuple[str, str, float, float]
"""Mark of a running step: session, kind of message, start, and seconds of garbage collection until then.

For a task that is not a step: its name, and an empty text as the kind.
"""


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
    """Logs the step of a session, or the task, that blocks all the others."""

    __slots__ = (
        "_alarm",
        "_collections",
        "_loop",
        "_named",
        "_named_collections",
        "_put_off",
        "_rounds",
        "_suspect",
        "_suspected",
        "_thread",
        "step",
    )

    def __init__(self) -> None:
        self.step: Crumb | None = None
        self._collections = (0.0, math.inf)
        self._named, self._named_collections = Named(), Named()
        self._loop = threading.get_ident()
        self._alarm: Alarm | None = None
        self._put_off = 0.0
        self._thread: threading.Thread | None = None
        self._rounds: Rounds | None = None
        self._suspect: trio.lowlevel.Task | None = None
        self._suspected: Crumb | None = None

    def start(self) -> None:
        """Start the thread."""
        from agentrail.runtime.diagnosis.alarms import alarm  # noqa: PLC0415 - ctypes, which only a supervisor needs

        wakes = self._alarm = alarm(SLOW)
        if trio.lowlevel.in_trio_run() and in_real_time():
            self._rounds = Rounds(partial(wakes.set, AWAKE))
            wakes.set(AWAKE)
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
        """Look no more; a thread that is held up by whatever writes the log is left behind."""
        alarm, self._alarm = self._alarm, None
        if alarm is not None and self._thread is not None:
            if self._rounds is not None:
                self._rounds.close()
            alarm.set(0)
            self._thread.join(CLOSING)
            if not self._thread.is_alive():
                alarm.close()
            with suppress(ValueError):  # whoever else has emptied the list
                gc.callbacks.remove(self._collecting)

    def begin(self, session_id: str, kind: str, now: float) -> Crumb:
        """Note that a step begins; return a mark to pass to `collecting`."""
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

        So it is never long, and whether all is over is asked after it.
        """
        while self._alarm is not None:
            alarm.wait()
            again = self._look()
            if again is not None:
                alarm.set(again)

    def _look(self) -> float | None:
        """Name what runs once when it is slow, and once more when it blocks; return in how many seconds to look again.

        `None` if nothing is to be looked at: the next step, or the loop when it is woken, sets the alarm.
        """
        step = self.step
        now = time.perf_counter()
        if step is not None:
            self._forget()
            return self._name(step, now)
        rounds = self._rounds
        if now - self._put_off < SLOW:
            self._forget()
            return SLOW
        if rounds is None or rounds.rests:
            return None
        if not rounds.asked:
            rounds.ask()
            self._forget()
            return SLOW
        return self._look_at_task(rounds, now)

    def _look_at_task(self, rounds: Rounds, now: float) -> float:
        """Log a task that was already running at the last look, and has let no other task run since."""
        task, suspected = rounds.running(), self._suspected
        if task is None or task is not self._suspect or suspected is None:
            self._suspect, self._suspected = task, task and (called(task), "", now, self._collections[0])
            return SLOW
        return self._name(suspected, now)

    def _forget(self) -> None:
        self._suspect = self._suspected = None

    def _name(self, step: Crumb, now: float) -> float:
        """Name *step* if it is slow; what is collected meanwhile is named by itself."""
        collecting = self.collecting(step, now)
        elapsed = now - step[2] - collecting
        session, kind, *_ = step
        level = self._named_collections.level(step, collecting)
        if level is not None:
            log.log(
                level,
                COLLECTED,
                collecting * 1000,
                f"session {session} handled `{kind}`" if kind else f"`{session}` ran",
            )
        level = self._named.level(step, elapsed)
        if level is not None:
            stack = stack_of(self._loop)
            said = stack if self._still(step) else ""
            log.log(
                level,
                HELD_UP,
                f"session {session}: `{kind}`" if kind else f"the task `{session}`",
                elapsed * 1000,
                said,
            )
        return min(self._named.limit(step) - elapsed, SLOW)

    def _still(self, step: Crumb) -> bool:
        """Return whether *step* goes on: the stack that was read is its own then."""
        if step is self.step:
            return True
        rounds = self._rounds
        return step is self._suspected and self.step is None and rounds is not None and rounds.asked

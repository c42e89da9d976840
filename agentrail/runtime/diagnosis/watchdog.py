"""The watchdog: a thread that logs the step or task that blocks the event loop. No task could: it would be blocked too.

The thread uses no frame object of the loop's thread. Steps register themselves with it, Trio knows which task runs, and
`stacks` reads where the loop's thread is.

Alarms: timers that wake the watchdog's thread when a step may be slow. While all steps are short, none goes off.

A thread that wakes periodically has to take the interpreter's lock each time. Trio's loop releases the lock in each
pass, but takes it back before the other thread is awake. So the thread would be woken in every pass and never run,
which cost a busy loop a third of its speed. Instead, the loop itself puts off a timer of the kernel.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import sys
import threading
import time
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from agentrail.runtime.diagnosis.crumb import NOTHING, Crumb
from agentrail.runtime.diagnosis.own_imports import OwnImports, imports_ours
from agentrail.runtime.diagnosis.pulse import Pulse, in_real_time
from agentrail.runtime.diagnosis.stacks import Scratch, called, line_of_user, threads_among, with_source
from agentrail.runtime.shared.collector import OLDEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


log = logging.getLogger("agentrail.watchdog")

SLOW: Final = 0.05
"""Seconds after which a running step, or another task that holds up the loop, is logged in one line."""

BLOCKED: Final = 1.0
"""Seconds after which a running step is logged as an error with its stack; without plugins, it is slow from then on."""

PUT_OFF: Final = 0.01
"""The loop puts off the alarm at most once in this many seconds: if it goes off too early, it is set again."""

AWAKE: Final = 0.25
"""Seconds after a beat of the loop until the thread looks which task blocks the loop, if no step begins meanwhile."""

LATE: Final = 0.5
"""Seconds by which the thread may wake late; from then on it logs which task or thread kept the interpreter's lock."""

CLOSING: Final = 5.0
"""Seconds that closing waits for the watchdog's thread to end; a slow log handler may hold it up."""

NO_THREADS: Final[Mapping[int, str]] = MappingProxyType({})
"""Threads of tools, by their ids, of whoever has none."""

HELD_UP: Final = "%s has held up the loop for %d ms%s"

KEPT: Final = "%s has kept the interpreter, and held up the loop, for %d ms or more%s"

IMPORTED: Final = "agentrail has held up the loop for %d ms to import modules at their first use, while %s"

NO_TIME: Final = "an unknown thread, or the system, which gave the process no time,"

COLLECTED: Final = (
    "the garbage collector, or what it finalized, has held up the loop for %d ms, while %s; "
    "have it come less often, by `gc.set_threshold`, and look at fewer objects, by `gc.freeze`"
)


class Named:
    """Remembers which step was last logged, so that each is logged at most twice: as slow, and as blocking."""

    __slots__ = ("_limit", "_step")

    def __init__(self) -> None:
        self._step: Crumb | None = None
        self._limit = SLOW

    def limit(self, step: Crumb) -> float:
        """Return after how many seconds *step* is to be logged next."""
        return SLOW if self._step is not step else self._limit

    def is_due(self, step: Crumb, seconds: float) -> bool:
        """Whether *step*, which has taken *seconds*, is to be logged now; if so, note that it is."""
        if seconds < self.limit(step):
            return False
        self._step, self._limit = step, BLOCKED if seconds < BLOCKED else math.inf
        return True


class Suspect(NamedTuple):
    """A task that ran when the thread looked, and may block the loop."""

    task: trio.lowlevel.Task
    """The task."""
    beats: int
    """How often the loop had made a beat by then: while that is so, the task runs on."""
    crumb: Crumb
    """Name of the task, and the time of the look."""


def _log(seconds: float, text: str, *about: object) -> None:
    """Log what took so many *seconds*: an error if that blocks, else a warning."""
    log.log(logging.WARNING if seconds < BLOCKED else logging.ERROR, text, *about)


def _log_import(seconds: float, ran: str) -> None:
    """Log that agentrail imported for so many *seconds*, while what *ran* says; nobody has to mend that."""
    log.log(logging.INFO if seconds < BLOCKED else logging.WARNING, IMPORTED, seconds * 1000, ran)


def _where(seconds: float, frames: Sequence[str]) -> str:
    """Return where the loop is, to end a line about so many *seconds*: the whole stack only if that blocks."""
    if not frames:
        return ""
    return f", at {line_of_user(frames)}" if seconds < BLOCKED else f"\n{with_source(frames)}"


class Watchdog:
    """Logs the step of a session, or the task, that blocks all other tasks. All supervisors of a run share it.

    While C code keeps the interpreter's lock, the watchdog's thread cannot run. So it checks how late it wakes. It
    gets the lock as soon as the C code gives it up, so the task or thread that runs then has most likely kept it.
    """

    __slots__ = (
        "_alarm",
        "_collected",
        "_collections",
        "_due",
        "_imports",
        "_loop",
        "_named",
        "_named_collections",
        "_named_imports",
        "_pulse",
        "_put_off",
        "_suspect",
        "_thread",
        "_working",
        "step",
    )

    def __init__(self) -> None:
        self.step: Crumb | None = None
        self._working: list[Mapping[int, str]] = []
        self._due = math.inf
        self._collected = 0.0
        self._collections = (0.0, math.inf)
        self._imports = OwnImports()
        self._named, self._named_collections, self._named_imports = Named(), Named(), Named()
        self._loop = threading.get_ident()
        self._alarm: Alarm | None = None
        self._put_off = 0.0
        self._thread: threading.Thread | None = None
        self._pulse: Pulse | None = None
        self._suspect: Suspect | None = None

    def start(self, working: Mapping[int, str] = NO_THREADS) -> None:
        """Begin to watch for a supervisor; for the first one, start the thread, and measure garbage collections.

        *working* are the threads in which its tools work, by their ids, with the names of the tools.
        """
        if self._working:
            self._working.append(working)
            return

        wakes = alarm(SLOW)
        thread = threading.Thread(target=self._watch, args=(wakes,), name="agentrail-watchdog", daemon=True)
        self._alarm = wakes
        try:
            thread.start()
        except RuntimeError:
            self._alarm = None
            wakes.close()
            raise
        self._thread = thread
        self._working.append(working)
        if trio.lowlevel.in_trio_run() and in_real_time():
            self._pulse = Pulse(self._awake)
        gc.callbacks.append(self._collecting)

    def _awake(self) -> None:
        """Set the alarm to `AWAKE` seconds from now, because the loop makes passes; the next step sets it to less."""
        if self._alarm is not None:
            self._put_off = 0.0
            self._set(self._alarm, AWAKE)

    def _set(self, alarm: Alarm, seconds: float) -> None:
        """Set the alarm, and note when it is due and the collections so far."""
        self._due, self._collected = time.perf_counter() + seconds, self._collections[0]
        alarm.set(seconds)

    def close(self, working: Mapping[int, str] = NO_THREADS) -> None:
        """Stop watching for the supervisor that started with *working*. After the last, end the thread and measuring.

        If a log handler holds the thread up, it is left to end by itself.
        """
        self._working = [others for others in self._working if others is not working]
        alarm = self._alarm
        if self._working or alarm is None or self._thread is None:
            return
        self._alarm = None
        if self._pulse is not None:
            self._pulse.close()
            self._pulse = None
        alarm.set(0)
        self._thread.join(CLOSING)
        if not self._thread.is_alive():
            alarm.close()
        with suppress(ValueError):  # other code may have removed the callback
            gc.callbacks.remove(self._collecting)

    def begin(self, session_id: str, kind: str, now: float) -> Crumb:
        """Register a step that begins, and put off the alarm; return the step, to pass to `collecting`."""
        step = self.step = (session_id, kind, now, self._collections[0], len(sys.modules))
        if now - self._put_off > PUT_OFF and self._alarm is not None:
            self._put_off, self._collected = now, step[3]
            self._alarm.put_off()
        return step

    @trio.lowlevel.enable_ki_protection  # Python drops what a gc callback raises, even a `KeyboardInterrupt`
    def _collecting(self, phase: str, info: Mapping[str, int]) -> None:
        """Callback of the garbage collector: add up the seconds of full collections, and note the start of one."""
        if info["generation"] == OLDEST:
            (lasted, since), now = self._collections, time.perf_counter()
            self._collections = (lasted, now) if phase == "start" else (lasted + max(0.0, now - since), math.inf)

    def collecting(self, step: Crumb, until: float) -> float:
        """Return how many seconds of *step*, from its start to *until*, were spent in full garbage collections."""
        lasted, since = self._collections
        return lasted + max(0.0, until - since) - step[3]

    def worked_seconds(self, step: Crumb, until: float) -> float:
        """Return how many seconds *step* has worked *until* its end, without collections and imports of agentrail."""
        return until - step[2] - self.collecting(step, until) - self._imports.seconds(step, until)

    def _watch(self, alarm: Alarm) -> None:
        """Body of the thread: wait for the alarm, look, and set the alarm again, until the watchdog is closed.

        Setting it overwrites a time that the loop has set meanwhile. So the times set here are short, and whether the
        watchdog is closed is checked after each.
        """
        with Scratch() as scratch:
            while self._alarm is alarm:  # after it was closed, another supervisor may have started it again
                alarm.wait()
                again = self._look(scratch)
                if again is not None:
                    self._set(alarm, again)

    def _look(self, scratch: Scratch) -> float | None:
        """Log the running step or task if it is slow; return in how many seconds to look again.

        `None` if no step runs and the loop rests: the next step, or the loop when it wakes, sets the alarm. While the
        loop makes passes, its beats put the alarm off, so this is called only if the loop is blocked, or rests.
        """
        step, now, pulse = self.step, time.perf_counter(), self._pulse
        late, self._due = now - max(self._due, self._put_off + SLOW), math.inf
        if step is None and pulse is not None and late >= LATE:
            self._name_keeper(pulse, now, late, scratch)
        if step is not None or now - self._put_off < SLOW:
            self._suspect = None
            return SLOW if step is None else self._name(step, now, scratch)
        if pulse is None or pulse.rests:
            return None
        suspect = self._running_suspect(pulse)
        if suspect is not None:
            return self._name(suspect.crumb, now, scratch)
        task, beats = pulse.running(), pulse.beats
        collected = self.collecting(NOTHING, now)  # includes the time of a collection that still runs
        self._suspect = (
            None if task is None else Suspect(task, beats, (called(task), "", now, collected, len(sys.modules)))
        )
        return SLOW

    def _running_suspect(self, pulse: Pulse) -> Suspect | None:
        """Return the task that ran at the last look too, if the loop has made no beat since; `None` if none has."""
        suspect = self._suspect
        # The task is looked for first: with a beat in between, it might be another run of the same task.
        runs_on = suspect is not None and pulse.running() is suspect.task and pulse.beats == suspect.beats
        return suspect if runs_on else None

    def _name_keeper(self, pulse: Pulse, now: float, late: float, scratch: Scratch) -> None:
        """Log that this thread woke *late* seconds too late, with the running task and the threads of tools.

        One of them has most likely kept the interpreter's lock. Until the frames are read, nothing here may give up
        the lock: the task would go on, and the frames would be others.
        """
        if self._running_suspect(pulse) is not None:
            return  # `_look` logs the task, with the time since the last look
        task = pulse.running()
        stacks = scratch.stacks()
        named = [] if task is None else [f"the task `{called(task)}`"]
        working = {thread: tool for threads in self._working for thread, tool in dict(threads).items()}
        named += [
            f"the thread of the tool `{name}` at {position}" for name, position in threads_among((), working, stacks)
        ]
        by = " or ".join(named) or NO_TIME
        collecting = self.collecting(NOTHING, now) - self._collected
        if collecting >= LATE:
            _log(collecting, COLLECTED, collecting * 1000, f"{by} ran")
        if late - collecting >= LATE:
            blocked, frames = late - collecting, () if task is None else stacks.get(self._loop, ())
            if imports_ours(frames):
                _log_import(blocked, f"{by} ran")
            else:
                _log(blocked, KEPT, by, blocked * 1000, _where(blocked, frames))

    def _name(self, step: Crumb, now: float, scratch: Scratch) -> float:
        """Log *step* if it is slow, and garbage collection during it if that is slow; return when to look again."""
        collecting = self.collecting(step, now)
        elapsed = now - step[2] - collecting
        frames = scratch.stacks().get(self._loop, ()) if elapsed >= SLOW else ()
        frames = frames if self._still(step) else ()
        importing = self._imports.seconds(step, now, frames)
        elapsed -= importing
        session, kind, *_ = step
        ran = f"session {session} handled `{kind}`" if kind else f"`{session}` ran"
        if self._named_collections.is_due(step, collecting):
            _log(collecting, COLLECTED, collecting * 1000, ran)
        if self._named_imports.is_due(step, importing):
            _log_import(importing, ran)
        if self._named.is_due(step, elapsed):
            name = f"session {session}: `{kind}`" if kind else f"the task `{session}`"
            _log(elapsed, HELD_UP, name, elapsed * 1000, _where(elapsed, frames))
        return min(self._named.limit(step) - elapsed, SLOW)

    def _still(self, step: Crumb) -> bool:
        """Return whether *step* still runs, so that the stack that was just read belongs to it."""
        if self.step is not None or self._pulse is None:
            return step is self.step
        suspect = self._running_suspect(self._pulse)
        return suspect is not None and suspect.crumb is step


_OF_RUN: Final = trio.lowlevel.RunVar[Watchdog]("agentrail watchdog")


def watchdog_of_run() -> Watchdog:
    """Return the watchdog that all supervisors of this run of Trio share; make it for the first one."""
    try:
        return _OF_RUN.get()
    except LookupError:
        _OF_RUN.set(Watchdog())
        return _OF_RUN.get()


_MONOTONIC: Final = 1
_CLOEXEC: Final = 0o2000000
_BILLION: Final = 1_000_000_000
_BITS_64: Final = 2**32
"""Where `sys.maxsize` is more, the kernel's numbers have 64 bits."""

PACE: Final = 0.25
"""Seconds after which a plain `Alarm` goes off each time: it is used where the kernel has no fitting timer."""


class Alarm:
    """A timer that one thread waits for. This one needs no kernel: it goes off every `PACE` seconds."""

    __slots__ = ("_rung", "_seconds")

    def __init__(self) -> None:
        self._rung = threading.Event()
        self._seconds = PACE

    def put_off(self) -> None:
        """Set the time again to the full delay: called by the loop when a step begins, so nothing is slow yet.

        No-op here: the alarm goes off so rarely that it costs little.
        """

    def set(self, seconds: float) -> None:
        """Set the time to *seconds* from now, here `PACE` at most; with 0, wake the waiting thread at once."""
        self._seconds = min(seconds, PACE)
        if not seconds:
            self._rung.set()

    def wait(self) -> None:
        """Block the calling thread until the alarm goes off."""
        self._rung.wait(self._seconds)
        self._seconds = PACE

    def close(self) -> None:
        """Free the timer; no thread may wait any more."""


class KernelAlarm(Alarm):
    """Alarm by a timer of Linux (`timerfd`); setting it wakes no thread."""

    __slots__ = ("_after", "_file", "_later", "_set")

    def __init__(self, later: float) -> None:
        import ctypes  # noqa: PLC0415 - only Linux needs it here

        def after(seconds: float) -> object:
            """Return the kernel's time structure: no interval, then seconds and nanoseconds from now."""
            return ctypes.byref((ctypes.c_long * 4)(0, 0, *divmod(max(1, int(seconds * _BILLION)), _BILLION)))

        kernel = ctypes.PyDLL(None, use_errno=True)  # these calls never wait, so the interpreter's lock is kept
        self._set = kernel.timerfd_settime
        self._file: int = kernel.timerfd_create(_MONOTONIC, _CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "no timer of the kernel")
        self._after = after
        self._later = after(later)

    def put_off(self) -> None:
        """Set the time again to the full delay."""
        self._set(self._file, 0, self._later, None)

    def set(self, seconds: float) -> None:
        """Set the time to *seconds* from now, whatever was set before."""
        self._set(self._file, 0, self._after(seconds), None)

    def wait(self) -> None:
        """Block the calling thread until the timer goes off."""
        os.read(self._file, 8)

    def close(self) -> None:
        """Close the timer."""
        os.close(self._file)


def alarm(later: float) -> Alarm:
    """Return a kernel alarm that `put_off` sets to *later* seconds; an `Alarm` if the system has no such timer."""
    if sys.platform == "linux" and sys.maxsize > _BITS_64:
        with suppress(ImportError, OSError, AttributeError):  # an old kernel, or the call is forbidden
            return KernelAlarm(later)
    return Alarm()

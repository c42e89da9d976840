"""Alarms: timers that wake the watchdog's thread when a step may be slow. While all steps are short, none goes off.

A thread that wakes periodically has to take the interpreter's lock each time. Trio's loop releases the lock in each
pass, but takes it back before the other thread is awake. So the thread would be woken in every pass and never run,
which cost a busy loop a third of its speed. Instead, the loop itself puts off a timer of the kernel.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Final, Protocol

_MONOTONIC: Final = 1
_CLOEXEC: Final = 0o2000000
_BILLION: Final = 1_000_000_000

PACE: Final = 0.25
"""Seconds after which a `PacedAlarm` goes off each time: it is used where the kernel has no fitting timer."""


class Alarm(Protocol):
    """A timer that one thread waits for."""

    def put_off(self) -> None:
        """Set the time again to the full delay: called by the loop when a step begins, so nothing is slow yet."""
        ...

    def set(self, seconds: float) -> None:
        """Set the time to *seconds* from now, whatever was set before."""
        ...

    def wait(self) -> None:
        """Block the calling thread until the alarm goes off."""
        ...

    def close(self) -> None:
        """Free the timer; no thread may wait any more."""
        ...


class _Moment(ctypes.Structure):
    _fields_ = (("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2))


def _after(seconds: float) -> _Moment:
    found = _Moment()
    found.value[:] = divmod(max(1, int(seconds * _BILLION)), _BILLION)
    return found


class KernelAlarm:
    """Alarm by a timer of Linux (`timerfd`); setting it wakes no thread."""

    __slots__ = ("_file", "_later", "_set")

    def __init__(self, later: float) -> None:
        if sys.platform != "linux" or ctypes.sizeof(ctypes.c_long) * 8 < 64:  # noqa: PLR2004 - bits
            raise OSError
        kernel = ctypes.PyDLL(None, use_errno=True)  # these calls never wait, so the interpreter's lock is kept
        self._set = kernel.timerfd_settime
        self._file: int = kernel.timerfd_create(_MONOTONIC, _CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "no timer of the kernel")
        self._later = ctypes.byref(_after(later))

    def put_off(self) -> None:
        """Set the time again to the full delay."""
        self._set(self._file, 0, self._later, None)

    def set(self, seconds: float) -> None:
        """Set the time to *seconds* from now, whatever was set before."""
        self._set(self._file, 0, ctypes.byref(_after(seconds)), None)

    def wait(self) -> None:
        """Block the calling thread until the timer goes off."""
        os.read(self._file, 8)

    def close(self) -> None:
        """Close the timer; no thread may wait any more."""
        os.close(self._file)


class PacedAlarm:
    """Alarm without a kernel timer: it goes off every `PACE` seconds, and cannot be put off."""

    __slots__ = ("_rung", "_seconds")

    def __init__(self) -> None:
        self._rung = threading.Event()
        self._seconds = PACE

    def put_off(self) -> None:
        """No-op: the alarm goes off so rarely that it costs little."""

    def set(self, seconds: float) -> None:
        """Shorten the next wait to *seconds*, if that is less than `PACE`; with 0, wake the waiting thread at once."""
        self._seconds = min(seconds, PACE)
        if not seconds:
            self._rung.set()

    def wait(self) -> None:
        """Block the calling thread for the set time, or until `set(0)`."""
        self._rung.wait(self._seconds)
        self._seconds = PACE

    def close(self) -> None:
        """No-op: there is nothing to free."""


def alarm(later: float) -> Alarm:
    """Return a kernel alarm that `put_off` sets to *later* seconds; a `PacedAlarm` if the system has no such timer."""
    try:
        return KernelAlarm(later)
    except (OSError, AttributeError):  # another system, an older one, or one that forbids it
        return PacedAlarm()

"""What wakes the thread that looks at slow steps: while all steps are short, nothing does.

A thread that wakes every now and then has to ask for the interpreter each time. A loop that gives it up often, but only
for an instant, as Trio's does at each pass, takes it back before the thread is up: the thread is woken at every pass
and starves. That cost a busy loop a third of its speed. So a timer of the kernel is put off by the loop instead.
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
"""Seconds between two looks where the kernel has no timer that can be put off."""


class Alarm(Protocol):
    """Wakes one thread."""

    def put_off(self) -> None:
        """Have it wake later: nothing is slow yet."""
        ...

    def set(self, seconds: float) -> None:
        """Have it wake in *seconds*, whatever was set before."""
        ...

    def wait(self) -> None:
        """Return when it is time to look."""
        ...

    def close(self) -> None:
        """Give back what it holds; nobody waits any more."""
        ...


class _Moment(ctypes.Structure):
    _fields_ = (("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2))


def _after(seconds: float) -> _Moment:
    found = _Moment()
    found.value[:] = divmod(max(1, int(seconds * _BILLION)), _BILLION)
    return found


class KernelAlarm:
    """A timer of Linux; setting it wakes nobody."""

    __slots__ = ("_file", "_later", "_set")

    def __init__(self, later: float) -> None:
        if sys.platform != "linux" or ctypes.sizeof(ctypes.c_long) * 8 < 64:  # noqa: PLR2004 - bits
            raise OSError
        kernel = ctypes.PyDLL(None, use_errno=True)  # these calls never wait, so the interpreter is kept
        self._set = kernel.timerfd_settime
        self._file: int = kernel.timerfd_create(_MONOTONIC, _CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "no timer of the kernel")
        self._later = ctypes.byref(_after(later))

    def put_off(self) -> None:
        """Have it wake later: nothing is slow yet."""
        self._set(self._file, 0, self._later, None)

    def set(self, seconds: float) -> None:
        """Have it wake in *seconds*, whatever was set before."""
        self._set(self._file, 0, ctypes.byref(_after(seconds)), None)

    def wait(self) -> None:
        """Return when it is time to look."""
        os.read(self._file, 8)

    def close(self) -> None:
        """Give back what it holds; nobody waits any more."""
        os.close(self._file)


class PacedAlarm:
    """Wakes at a slow pace, which it cannot be put off from."""

    __slots__ = ("_rung", "_seconds")

    def __init__(self) -> None:
        self._rung = threading.Event()
        self._seconds = PACE

    def put_off(self) -> None:
        """Do nothing: it comes so rarely that it does not matter."""

    def set(self, seconds: float) -> None:
        """Have it wake in *seconds*, or at its pace; at once only with none."""
        self._seconds = min(seconds, PACE)
        if not seconds:
            self._rung.set()

    def wait(self) -> None:
        """Return when it is time to look."""
        self._rung.wait(self._seconds)
        self._seconds = PACE

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""


def alarm(later: float) -> Alarm:
    """Return an alarm that can be put off by *later* seconds, as well as this system can."""
    try:
        return KernelAlarm(later)
    except (OSError, AttributeError):  # another system, an older one, or one that forbids it
        return PacedAlarm()

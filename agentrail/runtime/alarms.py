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

LONGEST: Final = 3600.0
"""Seconds after which it wakes in any case."""

PACE: Final = 0.25
"""Seconds between two looks where the kernel has no timer that can be put off."""


class Alarm(Protocol):
    """Wakes one thread."""

    def put_off(self) -> None:
        """Have it wake later: nothing is slow yet."""
        ...

    def ring(self) -> None:
        """Wake it now."""
        ...

    def wait(self, within: float | None) -> None:
        """Return when it is time to look; at the latest *within* some seconds, if that is known."""
        ...

    def close(self) -> None:
        """Give back what it holds; nobody waits any more."""
        ...


class _Moment(ctypes.Structure):
    _fields_ = (("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2))


def _after(seconds: float) -> _Moment:
    found = _Moment()
    found.value[:] = divmod(max(1, int(min(seconds, LONGEST) * _BILLION)), _BILLION)
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

    def ring(self) -> None:
        """Wake it now."""
        self._set(self._file, 0, ctypes.byref(_after(0)), None)

    def wait(self, within: float | None) -> None:
        """Return when it is time to look; at the latest *within* some seconds, if that is known."""
        if within is not None:
            self._set(self._file, 0, ctypes.byref(_after(within)), None)
        os.read(self._file, 8)

    def close(self) -> None:
        """Give back what it holds; nobody waits any more."""
        os.close(self._file)


class PacedAlarm:
    """Wakes at a slow pace, which it cannot be put off from."""

    __slots__ = ("_rung",)

    def __init__(self) -> None:
        self._rung = threading.Event()

    def put_off(self) -> None:
        """Do nothing: it comes so rarely that it does not matter."""

    def ring(self) -> None:
        """Wake it now."""
        self._rung.set()

    def wait(self, within: float | None) -> None:
        """Return when it is time to look; at the latest *within* some seconds, if that is known."""
        self._rung.wait(PACE if within is None else min(within, PACE))

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""


def alarm(later: float) -> Alarm:
    """Return an alarm that can be put off by *later* seconds, as well as this system can."""
    try:
        return KernelAlarm(later)
    except (OSError, AttributeError):  # another system, an older one, or one that forbids it
        return PacedAlarm()

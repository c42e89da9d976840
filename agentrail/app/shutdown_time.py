"""How long a supervisor may take to be left: its own time, or what a program that was told to end still has."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import trio

from agentrail.errors import WrongType
from agentrail.values.foreign import seconds, shown

LAST: Final = 1.0
"""Seconds from the cancellation of what is not over in time until it is named; less if there is little time."""

SHARE: Final = 0.1
"""The most of the whole time that this may be."""

WANTED: Final = "seconds from 0 on, or `None` to wait as long as it takes"


class ShutdownTime:
    """The end of a program; a supervisor that is being left meanwhile has to hurry."""

    def __init__(self) -> None:
        self._by = math.inf
        self._last = math.inf
        self._patient: set[trio.CancelScope] = set()

    def begin(self, within: float) -> None:
        """Have all supervisors left within so many seconds, with time for the program to say what is stuck."""
        self._last = last_of(within)
        self._by = trio.current_time() + within - 2 * self._last
        for patience in self._patient:
            patience.deadline = min(patience.deadline, self._by)

    def last(self, within: float | None) -> float:
        """Return the seconds that what was cut short has to end: the supervisor's own, or the program's if fewer."""
        return min(last_of(within), self._last)

    @contextmanager
    def patience(self, within: float | None) -> Generator[trio.CancelScope]:
        """Offer a scope in which the end of a supervisor is awaited; only the end of the program cuts it short."""
        own = math.inf if within is None else trio.current_time() + within - last_of(within)
        scope = trio.CancelScope(shield=True, deadline=min(own, self._by))
        self._patient.add(scope)
        try:
            yield scope
        finally:
            self._patient.discard(scope)


_RUNNING: Final[trio.lowlevel.RunVar[ShutdownTime]] = trio.lowlevel.RunVar("agentrail-ending")


def ending() -> ShutdownTime:
    """Return the end of this run of Trio."""
    try:
        return _RUNNING.get()
    except LookupError:
        made = ShutdownTime()
        _RUNNING.set(made)
        return made


def last_of(within: float | None) -> float:
    """Return the seconds of so many in all that are left for what was cut short."""
    return LAST if within is None else min(LAST, within * SHARE)


def check_time(argument: str, within: object) -> None:
    """Raise `WrongType` if *within* is no time to wait."""
    if within is not None and seconds(within) is None and within != math.inf:
        raise WrongType(argument, shown(within), WANTED)

"""How long closing a supervisor may take: its `stop_within`, or the rest of the time of a program that is ending."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import trio

from agentrail.errors import WrongType
from agentrail.values.foreign import seconds, shown

LAST: Final = 1.0
"""Seconds between cancelling what has not ended in time and reporting it as stuck; less if the whole time is short."""

SHARE: Final = 0.1
"""The largest share of the whole time that `LAST` may take."""

WANTED: Final = "seconds from 0 on, or `None` to wait as long as it takes"


class ShutdownTime:
    """When the program must have ended, once it was told to; shared by all supervisors in one run of Trio."""

    def __init__(self) -> None:
        self._by = math.inf
        self._last = math.inf
        self._patient: set[trio.CancelScope] = set()

    def begin(self, within: float) -> None:
        """Make all supervisors close within *within* seconds, less a little for the program to report what is stuck."""
        self._last = last_of(within)
        self._by = trio.current_time() + within - 2 * self._last
        for patience in self._patient:
            patience.deadline = min(patience.deadline, self._by)

    def last(self, within: float | None) -> float:
        """Return the seconds that cancelled tasks have to end: the supervisor's own, or the program's if shorter."""
        return min(last_of(within), self._last)

    @contextmanager
    def patience(self, within: float | None) -> Generator[trio.CancelScope]:
        """Yield a cancel scope in which a supervisor waits up to *within* for its children; `begin` may shorten it."""
        own = math.inf if within is None else trio.current_time() + within - last_of(within)
        # A cancellation around a supervisor starts its end in order; it must not cut that end short as well:
        # tests/runtime/test_shutdown.py::test_a_tool_that_ignores_its_end_is_named_and_waited_for
        scope = trio.CancelScope(shield=True, deadline=min(own, self._by))
        self._patient.add(scope)
        try:
            yield scope
        finally:
            self._patient.discard(scope)


_RUNNING: Final[trio.lowlevel.RunVar[ShutdownTime]] = trio.lowlevel.RunVar("agentrail-ending")


def ending() -> ShutdownTime:
    """Return the `ShutdownTime` of this run of Trio."""
    try:
        return _RUNNING.get()
    except LookupError:
        made = ShutdownTime()
        _RUNNING.set(made)
        return made


def last_of(within: float | None) -> float:
    """Return how many of *within* seconds are kept for tasks to end after their cancellation."""
    return LAST if within is None else min(LAST, within * SHARE)


def check_time(argument: str, within: object) -> None:
    """Raise `WrongType` if *within* is no time to wait."""
    if within is not None and seconds(within) is None and within != math.inf:
        raise WrongType(argument, shown(within), WANTED)

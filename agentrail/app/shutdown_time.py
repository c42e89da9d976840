"""Closing a supervisor, within its `stop_within`, or the rest of the time if the whole program is ending."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from agentrail.errors import SupervisorStuck, WrongType
from agentrail.values.untrusted_values import as_seconds, brief

if TYPE_CHECKING:
    from agentrail.runtime.supervision.root_nursery import RootNursery
    from agentrail.runtime.supervision.sessions import Sessions

LAST: Final = 1.0
"""The most seconds from cancelling tasks that have not ended in time to reporting them as stuck."""

SHARE: Final = 0.1
"""The largest share of a given stopping time that is reserved for tasks to end after they are cancelled."""

WANTED: Final = "seconds from 0 on, or `None` to wait as long as it takes"


class ShutdownTime:
    """The deadline by which the program must have ended, after a signal; shared by all supervisors of one Trio run."""

    def __init__(self) -> None:
        self._by = math.inf
        self._last = math.inf
        self._patient: set[trio.CancelScope] = set()

    def begin(self, within: float) -> None:
        """Make all supervisors close within *within* seconds, minus a little time to report what is stuck."""
        self._last = last_of(within)
        self._by = trio.current_time() + within - 2 * self._last
        for patience in self._patient:
            patience.deadline = min(patience.deadline, self._by)

    def last(self, within: float | None) -> float:
        """Return the seconds that cancelled tasks have to end: a share of *within*, less while the program ends."""
        return min(last_of(within), self._last)

    @contextmanager
    def patience(self, within: float | None) -> Generator[trio.CancelScope]:
        """Yield a cancel scope in which a supervisor waits up to *within* for its children; `begin` may shorten it."""
        own_deadline = math.inf if within is None else trio.current_time() + within - last_of(within)
        # Shielded: a cancellation around a supervisor starts its closing, and must not also cut the closing short:
        # tests/runtime/test_shutdown.py::test_a_tool_that_ignores_its_end_is_named_and_waited_for
        scope = trio.CancelScope(shield=True, deadline=min(own_deadline, self._by))
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
        time = ShutdownTime()
        _RUNNING.set(time)
        return time


def last_of(within: float | None) -> float:
    """Return how many of the *within* seconds are reserved for tasks to end after their cancellation."""
    return LAST if within is None else min(LAST, within * SHARE)


async def leave(root: RootNursery, sessions: Sessions | None, within: float | None) -> SupervisorStuck | None:
    """Stop all children and wait for them; return an error that names the stuck ones if *within* is exceeded."""
    began = trio.current_time()
    end, cut = (None, None) if sessions is None else (sessions.close, sessions.cut_short)
    with ending().patience(within) as patience:
        ended = await root.leave(patience, partial(ending().last, within), end, cut)
    if sessions is not None:
        sessions.abandon()
    if ended:
        return None
    stuck = root.unfinished({} if sessions is None else sessions.shared.threads.working)
    # The last of them may have ended at the last moment, when it was no more waited for.
    return SupervisorStuck(trio.current_time() - began, stuck) if stuck else None


def time_within(argument: str, within: object) -> float | None:
    """Return *within* as seconds, cut to ten years, as infinity or as `None`; raise `WrongType` if it is none of these.

    Trio has no room for a deadline that no `float` holds.
    """
    if within is None or (type(within) is float and within == math.inf):
        return within
    plain = as_seconds(within)
    if plain is None:
        raise WrongType(argument, brief(within), WANTED)
    return plain

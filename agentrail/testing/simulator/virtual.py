"""Virtual time and chance for a whole run of Trio: what the scheduler draws is drawn from the seed.

Trio shuffles the tasks of a pass; the switches that make this repeatable are private, and are those that its own
plugin for Hypothesis uses. The time of day and the time that a step takes are virtual too: nothing of a run depends on
how fast the machine is.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Final

import trio
from trio._core import _run as scheduler  # pyright: ignore[reportPrivateUsage]  # there is no other way
from trio.testing import MockClock

from agentrail.runtime.actor import loop
from agentrail.runtime.diagnosis.watchdog import Watchdog
from agentrail.runtime.shared import clock

START: Final = 1_700_000_000.0
"""The time of day at which a simulation begins, in seconds since 1970."""


class ClockWatch:
    """Stands in for the module `time`: the time of day moves with Trio's clock, steps take what they are said to."""

    def __init__(self) -> None:
        self.worked = 0.0
        self.day = START
        self.behind = 0

    def turn_back(self, seconds: int) -> None:
        """Have an earlier time of day; what waits for a time of day waits so much longer."""
        self.day -= seconds
        self.behind += seconds

    def time(self) -> float:
        """Return the time of day."""
        return self.day + trio.lowlevel.current_clock().current_time()

    def perf_counter(self) -> float:
        """Return how long steps have taken."""
        return self.worked


@contextmanager
def swapped(owner: object, name: str, new: object) -> Generator[None]:
    """Have something else stand under a name for a while."""
    old: object = getattr(owner, name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)


class NothingMovesError(Exception):
    """No task can run, and none will."""


def run(seed: int, watch: ClockWatch, main: Callable[[MockClock], Awaitable[None]]) -> None:
    """Run *main* on a virtual clock; whatever it does it does again for the same seed.

    Where it would wait for ever, `NothingMovesError` ends it, whatever is shielded.
    """
    virtual = MockClock(autojump_threshold=0)
    jump = virtual._autojump  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    everything = trio.CancelScope()

    async def bounded(virtual: MockClock) -> None:
        with everything:
            await main(virtual)

    def jump_or_end() -> None:
        if trio.lowlevel.current_statistics().seconds_to_next_deadline < math.inf:
            jump()
            return
        # From the root on: a supervisor has tasks beside *main*; and again: what is left may shield itself in leaving.
        shielded = _unshield(trio.lowlevel.current_root_task())
        if everything.cancel_called and not shielded:
            raise NothingMovesError
        everything.cancel()

    known = scheduler._r.getstate()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    disabled = logging.root.manager.disable
    with ExitStack() as swaps:
        swaps.enter_context(swapped(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True))
        swaps.enter_context(swapped(clock, "time", watch))
        swaps.enter_context(swapped(loop, "time", watch))
        swaps.enter_context(swapped(Watchdog, "start", _no_thread))
        swaps.callback(scheduler._r.setstate, known)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        swaps.callback(logging.disable, disabled)
        logging.disable()  # what breaks on purpose is no news
        swaps.enter_context(swapped(virtual, "_autojump", jump_or_end))
        scheduler._r.seed(seed)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        try:
            trio.run(bounded, virtual, clock=virtual)
        except Exception as error:
            if everything.cancel_called:  # what had broken before could not be told while something was waited for
                raise NothingMovesError from error
            raise
    watch.day += virtual.current_time()
    if everything.cancel_called:
        raise NothingMovesError


def _unshield(task: trio.lowlevel.Task | None) -> bool:
    """Let a cancellation reach *task* and all under it; return whether anything of it was shielded."""
    if task is None:
        return False
    shielded = False
    status: scheduler.CancelStatus | None = task._cancel_status  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    while status is not None:
        shielded |= status._scope.shield  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        status._scope.shield = False  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        status = status._parent  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    under = [_unshield(child) for nursery in task.child_nurseries for child in nursery.child_tasks]
    return shielded or any(under)


def _no_thread(_: Watchdog) -> None:
    """Nothing watches: no step is slow but in virtual time."""

"""Runs Trio on a virtual clock, with its scheduler seeded, so that the same seed gives the same run.

Trio shuffles the tasks of each scheduler pass. The switches that make this repeatable are private; Trio's own support
for Hypothesis uses the same ones. The time of day and the time that a step takes are virtual too, so a run does not
depend on the speed of the machine.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import trio
from trio._core import _run as scheduler  # pyright: ignore[reportPrivateUsage]  # there is no other way
from trio.testing import MockClock

from agentrail.adapters.sandboxes.kept_files import folder_snapshots
from agentrail.runtime.actor import session
from agentrail.runtime.diagnosis.watchdog import Watchdog
from agentrail.runtime.shared import clock

START: Final = 1_700_000_000.0
"""The time of day at which a simulation begins, in seconds since 1970."""

STEPS_AT_ONCE: Final = 10_000
"""Steps of tasks from which on time stands still: the stories of the simulator have 300 at one instant."""


class ClockWatch:
    """Replaces the module `time`: `time()` follows Trio's clock, `perf_counter()` grows only when parts add to it."""

    def __init__(self) -> None:
        self.worked = 0.0
        self.day = START
        self.behind = 0

    def turn_back(self, seconds: int) -> None:
        """Set the time of day back by *seconds*; timers set to a time of day fire that much later."""
        self.day -= seconds
        self.behind += seconds

    def time(self) -> float:
        """Return the time of day."""
        return self.day + trio.lowlevel.current_clock().current_time()

    def perf_counter(self) -> float:
        """Return the virtual seconds that steps have taken in all."""
        return self.worked


@contextmanager
def swapped(owner: object, name: str, new: object) -> Generator[None]:
    """Within this block, set the attribute *name* of *owner* to *new*."""
    old: object = getattr(owner, name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)


class NothingMovesError(Exception):
    """Every task of a simulation waits and nothing will ever wake one, or some go on for ever at one instant."""


class _StepsAtOnce(trio.abc.Instrument):
    """Calls *end* if tasks go on and on while the virtual time stands still."""

    def __init__(self, end: Callable[[], object]) -> None:
        self._end = end
        self.count = 0
        """How many steps tasks have made since the time last went on."""

    def after_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - the interface is Trio's
        self.count += 1
        if self.count % STEPS_AT_ONCE == 0:
            self._end()


@contextmanager
def _repeatable_runtime(seed: int, watch: ClockWatch, *, logs: bool) -> Generator[None]:
    """Within this block, seed the scheduler with *seed*, and keep the runtime off the clock and disk of the machine."""
    random_state = scheduler._r.getstate()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    disabled = logging.root.manager.disable
    with ExitStack() as swaps:
        swaps.enter_context(swapped(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True))
        swaps.enter_context(swapped(clock, "time", watch))
        swaps.enter_context(swapped(session, "time", watch))
        swaps.enter_context(swapped(Watchdog, "start", _no_thread))
        swaps.enter_context(swapped(folder_snapshots, "home", _no_home))
        swaps.callback(scheduler._r.setstate, random_state)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        swaps.callback(logging.disable, disabled)
        logging.disable(logging.NOTSET if logs else logging.CRITICAL)  # the runtime would log planted faults
        scheduler._r.seed(seed)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        yield


def run(seed: int, watch: ClockWatch, main: Callable[[MockClock], Awaitable[None]], *, logs: bool = False) -> None:
    """Run *main* on a virtual clock and a scheduler seeded with *seed*: the same seed gives the same run.

    If all tasks wait and no deadline is set, or if they go on while time stands still, everything is cancelled,
    shielded scopes too, and `NothingMovesError` is raised. With *logs*, the runtime logs.
    """
    virtual = MockClock(autojump_threshold=0)
    jump = virtual._autojump  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    everything = trio.CancelScope()

    async def bounded(virtual: MockClock) -> None:
        with everything:
            await main(virtual)

    def end() -> bool:
        # Starts at Trio's root task, because a supervisor has tasks outside *main*. Repeated at each call, because
        # tasks that end may open new shielded scopes.
        shielded = _unshield(trio.lowlevel.current_root_task())
        everything.cancel()
        return shielded

    steps = _StepsAtOnce(end)

    def jump_or_end() -> None:
        steps.count = 0
        if trio.lowlevel.current_statistics().seconds_to_next_deadline < math.inf:
            jump()
            return
        was_called = everything.cancel_called
        if not end() and was_called:
            raise NothingMovesError

    with _repeatable_runtime(seed, watch, logs=logs), swapped(virtual, "_autojump", jump_or_end):
        try:
            trio.run(bounded, virtual, clock=virtual, instruments=[steps])
        except Exception as error:
            if everything.cancel_called:  # raised by `jump_or_end`, possibly held back by a nursery that waited
                raise NothingMovesError from error
            raise
    watch.day += virtual.current_time()
    if everything.cancel_called:
        raise NothingMovesError


def _unshield(task: trio.lowlevel.Task | None) -> bool:
    """Remove the shields of *task* and of all its child tasks, so that a cancellation reaches them.

    Returns whether there was any shield.
    """
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


def _no_thread(_: Watchdog, _working: Mapping[int, str]) -> None:
    """No-op: the watchdog's thread is not started, because it would measure real time."""


def _no_home() -> Path:
    """Refuse: the snapshots of the user stay. Besides, time would not wait for the thread that drops some."""
    raise RuntimeError

"""A whole program: it stops in order when it is told to, and does not wait for ever for what will not end."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar, cast

import trio

from agentrail.app.ending import ending
from agentrail.errors import SupervisorStuck, WrongType
from agentrail.runtime.border import tell
from agentrail.values.outside import seconds, shown

T = TypeVar("T")

log = logging.getLogger("agentrail.process")

GAVE_UP: Final = 70
"""The exit status of a process that did not end by itself in time."""

ENDING: Final = ("SIGTERM", "SIGINT", "SIGHUP")
"""Names of the signals that end a program in order, where the system has them."""

FULL_COLLECTION_AFTER: Final = 100
"""Collections of the middle generation between two that look at all objects; Python's own figure is 10."""


def run(main: Callable[[], Awaitable[T]], *, stop_within: float = 10.0) -> T | None:
    """Run *main* by `trio.run`, and return what it returns; SIGTERM, SIGINT or SIGHUP cancels it: then it is `None`.

    A signal that the process was started to ignore, as `nohup` has it with SIGHUP, stays ignored.

    A program has *stop_within* seconds to end, from the signal on, or else from the end of *main*. The supervisors in
    it are left within that time, and name what is stuck. What goes on then, or at a second signal, ends with the
    process, by status 70. When `SupervisorStuck` comes out of *main*, that happens at once: a run of Trio ends only
    after all its tasks. Meanwhile full collections come seldom: see `fewer_full_collections`.
    """
    within = seconds(stop_within)
    if within is None:
        raise WrongType("stop_within", shown(stop_within), "seconds from 0 on")
    last_resort = _LastResort(within)
    try:
        with fewer_full_collections():
            return trio.run(_guarded, main, last_resort)
    finally:
        last_resort.cancel()


class _LastResort:
    """Ends the process when its time is over: in a thread, because the loop may be held up."""

    def __init__(self, within: float) -> None:
        self.within = within
        self._timer = threading.Timer(within, _leave, ("it did not end in time",))
        self._timer.daemon = True
        self._has_begun = False

    def begin(self) -> None:
        """Let the time begin, if it has not."""
        if not self._has_begun:
            self._has_begun = True
            self._timer.start()

    def cancel(self) -> None:
        """Let the process go on: the program has ended."""
        self._timer.cancel()


@contextmanager
def fewer_full_collections() -> Generator[None]:
    """Have the garbage collector look at all objects more seldom: nothing runs meanwhile, and sessions are many.

    The young generations are collected as ever. A process that has chosen a higher threshold keeps it.
    """
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, max(old, FULL_COLLECTION_AFTER))
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)


async def _guarded(main: Callable[[], Awaitable[T]], last_resort: _LastResort) -> T | None:
    scope = trio.CancelScope()
    result: T | None = None
    async with trio.open_nursery() as nursery:  # noqa: TID251 - around the whole program
        await nursery.start(_obey, scope, last_resort)
        with scope:
            try:
                result = await main()
            except BaseException as error:
                if _is_stuck(error):
                    _leave("a supervisor cannot end", error)
                raise
            finally:
                last_resort.begin()
        nursery.cancel_scope.cancel()
    return result


def _is_stuck(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_stuck, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, SupervisorStuck)


async def _obey(scope: trio.CancelScope, last_resort: _LastResort, task_status: trio.TaskStatus[None]) -> None:
    """Cancel *scope* at the first signal, and end the process at the second."""
    numbers = tuple(_ending())
    if not numbers:
        task_status.started()
        return
    with trio.open_signal_receiver(*numbers) as signals:
        task_status.started()
        async for number in signals:
            if scope.cancel_called:
                _leave("it was told twice")
            log.warning("%s: the program stops within %g s", signal.Signals(number).name, last_resort.within)
            last_resort.begin()
            ending().begin(last_resort.within)
            scope.cancel()


def _ending() -> Iterator[signal.Signals]:
    """Return the signals that end the program: those that this system has, and the process does not ignore."""
    for name in ENDING:
        number: signal.Signals | None = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            yield number


def _leave(why: str, error: BaseException | None = None) -> None:
    tell(log, error, "the process ends at once: %s", why)
    logging.shutdown()
    os._exit(GAVE_UP)

"""A whole program: it stops in order when it is told to, and does not wait for ever for what will not end."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final, TypeAlias, TypeVar

import trio

from agentrail.app.shutdown_time import ending
from agentrail.errors import SupervisorStuck, WrongType
from agentrail.runtime.shared.sanitize import tell
from agentrail.values.foreign import leaves, seconds, shown
from agentrail.values.spelling import checked

T = TypeVar("T")

_Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None
"""What Python calls at a signal, or what the system does then."""

log = logging.getLogger("agentrail.process")

GAVE_UP: Final = 70
"""The exit status of a process that did not end by itself in time."""

ENDING: Final = ("SIGTERM", "SIGINT", "SIGHUP")
"""Names of the signals that end a program in order, where the system has them."""

FULL_COLLECTION_AFTER: Final = 100
"""Collections of the middle generation between two that look at all objects; Python's own figure is 10."""


@checked
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
    """Ends the process when its time is over: in a thread, because the loop may be held up.

    It is told by a queue that a handler of signals may use, whatever it has interrupted.
    """

    def __init__(self, within: float) -> None:
        self.within = within
        self._goes_on: SimpleQueue[bool] = SimpleQueue()
        threading.Thread(target=self._wait, name="agentrail last resort", daemon=True).start()

    def begin(self) -> None:
        """Let the time begin, if it has not."""
        self._goes_on.put(False)

    def cancel(self) -> None:
        """Let the process go on: the program has ended."""
        self._goes_on.put(True)

    def _wait(self) -> None:
        if self._goes_on.get():
            return
        end = time.monotonic() + self.within
        try:
            while not self._goes_on.get(timeout=min(max(end - time.monotonic(), 0), threading.TIMEOUT_MAX)):
                pass
        except Empty:
            _leave("it did not end in time")


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
    return any(isinstance(leaf, SupervisorStuck) for leaf in leaves(error))


async def _obey(scope: trio.CancelScope, last_resort: _LastResort, task_status: trio.TaskStatus[None]) -> None:
    """Cancel *scope* at the first signal, and end the process at the second."""
    numbers = tuple(_ending())
    if not numbers:
        task_status.started()
        return
    with trio.open_signal_receiver(*numbers) as signals:
        for one in numbers:
            signal.signal(one, _first(last_resort.begin, signal.getsignal(one)))
        task_status.started()
        async for number in signals:
            if scope.cancel_called:
                _leave("it was told twice")
            log.warning("%s: the program stops within %g s", signal.Signals(number).name, last_resort.within)
            ending().begin(last_resort.within)
            scope.cancel()


def _first(begin: Callable[[], None], then: _Handler) -> Callable[[int, FrameType | None], None]:
    """Return a handler that lets the time *begin* also where the loop is held up, and *then* tells the loop."""

    def told(number: int, frame: FrameType | None) -> None:
        begin()
        if callable(then):
            then(number, frame)

    return told


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

"""A whole program: it stops in order when it is told to, and does not wait for ever for what will not end."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeVar

import trio

T = TypeVar("T")

log = logging.getLogger("agentrail.process")

GAVE_UP: Final = 70
"""The exit status of a process that did not end by itself in time."""

FULL_COLLECTION_AFTER: Final = 100
"""Collections of the middle generation between two that look at all objects; Python's own figure is 10."""


def run(main: Callable[[], Awaitable[T]], *, stop_within: float = 10.0) -> T | None:
    """Run *main* by `trio.run`, and return what it returns; SIGTERM or SIGINT cancels it, and then it is `None`.

    What is left *stop_within* seconds after the signal, or at a second one, ends with the process, by status 70; the
    supervisors have named it in the log before. Meanwhile full collections come seldom: see `fewer_full_collections`.
    """
    with fewer_full_collections():
        return trio.run(_guarded, main, stop_within)


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


async def _guarded(main: Callable[[], Awaitable[T]], stop_within: float) -> T | None:
    scope = trio.CancelScope()
    result: T | None = None
    async with trio.open_nursery() as nursery:  # noqa: TID251 - around the whole program
        await nursery.start(_obey, scope, stop_within)
        with scope:
            result = await main()
        nursery.cancel_scope.cancel()
    return result


async def _obey(scope: trio.CancelScope, stop_within: float, task_status: trio.TaskStatus[None]) -> None:
    """Cancel *scope* at the first signal; a thread ends the process later, because the loop may be held up."""
    last_resort = threading.Timer(stop_within, _leave, ("it did not end in time",))
    last_resort.daemon = True
    try:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for number in signals:
                if scope.cancel_called:
                    _leave("it was told twice")
                log.warning("%s: the program stops within %g s", signal.Signals(number).name, stop_within)
                last_resort.start()
                scope.cancel()
    finally:
        last_resort.cancel()


def _leave(why: str) -> None:
    log.error("the process ends at once: %s", why)
    logging.shutdown()
    os._exit(GAVE_UP)

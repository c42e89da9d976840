"""Runs a test on asyncio: plainly, in debug mode, and on uvloop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from typing import Final, TypeAlias, TypeVar, cast

import pytest
import trio
import uvloop

from agentrail.bridge.bridge_reader import AsyncBody
from agentrail.bridge.streams import Exchange
from agentrail.bridge.trio_thread import TrioThread
from tests.patience import PATIENCE

T = TypeVar("T")

Main: TypeAlias = Callable[[], Coroutine[object, object, T]]
Run: TypeAlias = Callable[[Main[None]], None]


async def patiently(main: Main[T]) -> T:
    """Await *main*, which may be a campaign of its own, and fail if it hangs."""
    return await asyncio.wait_for(main(), 10 * PATIENCE)


def plain(main: Main[None]) -> None:
    asyncio.run(_watched(main))


def debug(main: Main[None]) -> None:
    asyncio.run(_watched(main), debug=True)


def on_uvloop(main: Main[None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_watched(main))


async def _watched(main: Main[None]) -> None:
    """Await *main*; fail if the loop was told of an exception that nobody handled, or if tasks are left."""
    problems: list[object] = []
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = PATIENCE  # debug mode would log what is slow, and this machine may be
    loop.set_exception_handler(lambda _, context: problems.append(context))
    await patiently(main)
    gc.collect()
    await asyncio.sleep(0)
    assert problems == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


RUNS: Final[tuple[Run, ...]] = (plain, debug, on_uvloop)

on_each_loop: Final = pytest.mark.parametrize("run", RUNS, ids=("asyncio", "debug", "uvloop"))


@asynccontextmanager
async def bare_thread() -> AsyncIterator[TrioThread[None]]:
    """Open a Trio thread in which nothing else is open."""
    body = AsyncBody(TrioThread(nullcontext(), 10))
    await body.enter()
    error: BaseException | None = None
    try:
        yield body.thread
    except BaseException as raised:
        error = raised
        raise
    finally:
        await body.leave(error)


def exchange_of(thread: TrioThread[None], seconds: float = PATIENCE) -> Exchange[str]:
    """Return an exchange with room for one text each way, which tells its work `last` when no more come."""
    return Exchange(cast("TrioThread[object]", thread), "last", (1, 1), seconds)


async def on_trio(thread: TrioThread[None], work: Callable[[], T]) -> T:
    """Return what *work* returns in the Trio thread."""

    async def working() -> T:
        await trio.lowlevel.checkpoint()
        return work()

    return await thread.call(working)


async def until(is_so: Callable[[], object]) -> None:
    """Let other tasks and threads run until *is_so*."""
    while not is_so():  # noqa: ASYNC110 - what it waits for happens in another thread
        await asyncio.sleep(0)

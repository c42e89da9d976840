"""How callers in loops are woken: also by a Trio that never pauses, and nothing is kept of loops that have ended."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import weakref
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, nullcontext

import pytest
import trio

from agentrail.bridge.streams import ReceiveItem, SendItem
from agentrail.bridge.trio_thread import TrioThread
from agentrail.bridge.waiters import PATIENCE as MOMENT
from agentrail.bridge.waiters import Batching
from tests.bridge.loops import bare_thread, exchange_of, plain, until
from tests.bridge.test_sync import interrupted
from tests.patience import PATIENCE


@contextmanager
def opened_thread() -> Iterator[TrioThread[None]]:
    """Open a Trio thread that belongs to no loop."""
    thread = TrioThread(nullcontext(), 10)
    thread.open_blocking()
    try:
        yield thread
    finally:
        thread.close_blocking()


async def nothing() -> None:
    await trio.lowlevel.checkpoint()


def test_a_loop_is_woken_although_trio_never_pauses() -> None:
    answered = threading.Event()

    async def work_on() -> bool:
        """Work until the other call is answered; return whether it was."""
        until_then = time.monotonic() + PATIENCE
        while not answered.is_set() and time.monotonic() < until_then:  # noqa: ASYNC110 - Trio is to be busy
            await trio.lowlevel.checkpoint()
        return answered.is_set()

    async def main() -> None:
        async with bare_thread() as thread:
            working = asyncio.create_task(thread.call(work_on))
            await thread.call(nothing)
            answered.set()
            assert await working

    plain(main)


def test_a_loop_is_woken_a_moment_after_its_action_whatever_comes_for_others() -> None:
    woken: list[str] = []
    batching = Batching()
    batching.begin()
    assert batching.takes(lambda: woken.append("first"))
    threading.Event().wait(2 * MOMENT)
    assert batching.takes(lambda: woken.append("another"))
    batching.before_io_wait(0)
    assert woken == ["first", "another"]


def test_what_has_gathered_at_the_end_of_trio_wakes_its_loop() -> None:
    woken: list[str] = []
    batching = Batching()
    batching.begin()
    assert batching.takes(lambda: woken.append("loop"))
    batching.end()
    assert woken == ["loop"]
    assert not batching.takes(lambda: woken.append("later"))  # who is too late wakes its loop itself


def test_what_another_process_posts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened_thread() as thread, monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)  # as in a fork, which has the thread's inbox and not the thread
        assert not thread.post(forget)


def forget() -> None:
    """Do nothing."""


def test_a_thread_keeps_nothing_of_loops_that_have_ended() -> None:
    with opened_thread() as thread:
        ended: list[weakref.ref[asyncio.AbstractEventLoop]] = []

        async def main() -> None:
            ended.append(weakref.ref(asyncio.get_running_loop()))
            await thread.call(nothing)

        for _ in range(3):
            asyncio.run(main())
        gc.collect()
        assert [loop() for loop in ended[:-1]] == [None, None]


class Work:
    """Work on Trio that ends by its cancellation alone."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.is_cancelled = threading.Event()

    async def run(self) -> None:
        self.has_begun.set()
        try:
            await trio.sleep_forever()
        finally:
            self.is_cancelled.set()


async def end(coroutine: Coroutine[object, object, None], work: Work) -> None:
    """Begin *coroutine*, which has *work* done on Trio, and end it as a loop does that ends without its tasks."""
    coroutine.send(None)
    await until(work.has_begun.is_set)
    coroutine.close()
    async with asyncio.timeout(PATIENCE):
        await until(work.is_cancelled.is_set)


def test_a_loop_that_ends_without_a_task_cancels_its_call() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            work = Work()
            await end(thread.call(work.run), work)

    plain(main)


def test_a_loop_that_ends_without_the_task_of_an_exchange_cancels_its_work() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            work, others = Work(), asyncio.all_tasks()

            async def run(_: ReceiveItem[str], _send: SendItem[str]) -> None:
                await work.run()

            async def receive() -> str:
                raise AssertionError

            exchange = exchange_of(thread)
            await end(exchange.run(run, receive, ignore), work)
            (receiver,) = asyncio.all_tasks() - others  # its loop would have ended too
            receiver.cancel()
            await asyncio.wait([receiver])

    plain(main)


async def ignore(_: str) -> None:
    """Take an item."""


@pytest.mark.parametrize("makes", [True, False])
def test_what_a_blocking_call_has_made_when_it_is_interrupted_is_undone(makes: bool) -> None:
    undone: list[object] = []
    has_begun = threading.Event()

    async def make() -> str:
        has_begun.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            if not makes:
                raise
        return "made"

    async def undo(value: str) -> None:
        await trio.lowlevel.checkpoint()
        undone.append(value)

    with opened_thread() as thread:
        interrupted(lambda: thread.call_blocking(make, undo), has_begun.is_set)
    assert undone == (["made"] if makes else [])

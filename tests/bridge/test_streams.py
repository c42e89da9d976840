"""Bounded streams between two loops, in both directions."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
import trio

from agentrail.bridge.streams import BoundedStream, StreamEndError
from agentrail.bridge.trio_thread import TrioThread
from agentrail.bridge.waiters import LoopWaiter, TaskWaiter
from tests.bridge.loops import Run, bare_thread, on_each_loop, plain, until

MANY = 1000


def from_trio(thread: TrioThread[None], window: int) -> BoundedStream[int]:
    return BoundedStream(window, TaskWaiter(thread.post), LoopWaiter(thread.outbox()))


def to_trio(thread: TrioThread[None], window: int) -> BoundedStream[int]:
    return BoundedStream(window, LoopWaiter(thread.outbox()), TaskWaiter(thread.post))


async def send_all(stream: BoundedStream[int], count: int) -> int:
    """Send so many items; return how many were sent before the receiver left."""
    for item in range(count):
        try:
            await stream.send(item)
        except StreamEndError:
            return item
    stream.end()
    return count


async def receive_all(stream: BoundedStream[int]) -> list[int]:
    items: list[int] = []
    while True:
        try:
            items.append(await stream.receive())
        except StreamEndError:
            return items


@pytest.mark.long
@on_each_loop
@pytest.mark.parametrize("window", [1, 2, 3, 256])
def test_all_items_come_out_of_trio_in_order(run: Run, window: int) -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            stream = from_trio(thread, window)
            sending = asyncio.create_task(thread.call(partial(send_all, stream, MANY)))
            assert await receive_all(stream) == list(range(MANY))
            assert await sending == MANY

    run(main)


@pytest.mark.long
@on_each_loop
@pytest.mark.parametrize("window", [1, 2, 3, 256])
def test_all_items_come_into_trio_in_order(run: Run, window: int) -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            stream = to_trio(thread, window)
            receiving = asyncio.create_task(thread.call(partial(receive_all, stream)))
            assert await send_all(stream, MANY) == MANY
            assert await receiving == list(range(MANY))

    run(main)


def test_a_sender_waits_while_the_window_is_full() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            stream = from_trio(thread, 8)
            sending = asyncio.create_task(thread.call(partial(send_all, stream, MANY)))
            await until(lambda: stream.waiting == 8)
            await thread.call(trio.testing.wait_all_tasks_blocked)
            assert stream.waiting == 8
            assert await receive_all(stream) == list(range(MANY))
            await sending

    plain(main)


def test_a_sender_learns_that_the_receiver_has_left() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            stream = from_trio(thread, 8)
            sending = asyncio.create_task(thread.call(partial(send_all, stream, MANY)))
            await until(lambda: stream.waiting == 8)
            stream.leave()
            assert await sending == 8

    plain(main)


def test_a_receiver_gets_the_error_of_the_sender_after_the_last_item() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            stream = from_trio(thread, 8)

            async def work() -> None:
                await stream.send(1)
                stream.end(ValueError("broken"))

            sending = asyncio.create_task(thread.call(work))
            assert await stream.receive() == 1
            with pytest.raises(ValueError, match="broken"):
                await stream.receive()
            with pytest.raises(StreamEndError):
                await stream.receive()
            await sending

    plain(main)


def test_a_cancelled_receiver_loses_no_item() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            stream, items = from_trio(thread, 4), list[int]()
            sending = asyncio.create_task(thread.call(partial(send_all, stream, 200)))
            while len(items) < 200:
                receiving = asyncio.create_task(stream.receive())
                await asyncio.sleep(0)
                if len(items) % 3 == 0:
                    receiving.cancel()
                await asyncio.wait([receiving])
                if not receiving.cancelled():
                    items.append(receiving.result())
                else:
                    items.append(await stream.receive())
            assert items == list(range(200))
            await sending

    plain(main)

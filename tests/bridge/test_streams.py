"""Bounded streams between two loops, in both directions."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
import trio

from agentrail.bridge.streams import BoundedStream, ReceiveItem, SendItem, StreamEndError
from agentrail.bridge.trio_thread import TrioThread
from agentrail.bridge.waiters import LoopWaiter, TaskWaiter
from tests.bridge.loops import Run, bare_thread, exchange_of, on_each_loop, plain, until

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


def test_a_sender_goes_on_when_half_of_the_window_is_free() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            stream = from_trio(thread, 8)
            sending = asyncio.create_task(thread.call(partial(send_all, stream, MANY)))
            await until(lambda: stream.waiting == 8)
            await thread.call(trio.testing.wait_all_tasks_blocked)
            for size in (7, 6, 5):
                await stream.receive()
                await thread.call(trio.testing.wait_all_tasks_blocked)
                assert stream.waiting == size
            await stream.receive()
            await until(lambda: stream.waiting == 8)
            stream.leave()
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


# Exchanges


class Other:
    """The other side of an exchange, in the loop: it sends nothing more after its first item."""

    def __init__(self) -> None:
        self.items: list[str] = []
        """What it got."""
        self.has_left = False
        """Whether nobody waits for its next item any more."""
        self._sent = False

    async def receive(self) -> str:
        if not self._sent:
            self._sent = True
            return "first"
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.has_left = True
        raise AssertionError

    async def send(self, item: str) -> None:
        self.items.append(item)


async def answer_one(receive: ReceiveItem[str], send: SendItem[str]) -> None:
    await send(f"{await receive()}, answered")


def test_an_exchange_leaves_no_task_that_waits_for_an_item() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            other, tasks = Other(), asyncio.all_tasks()
            await exchange_of(thread).run(answer_one, other.receive, other.send)
            assert other.has_left
            assert asyncio.all_tasks() == tasks
            assert other.items == ["first, answered"]

    plain(main)


def test_an_exchange_that_is_cancelled_cancels_its_work_and_waits_for_its_end() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            other, texts = Other(), list[str]()

            async def work(receive: ReceiveItem[str], send: SendItem[str]) -> None:
                await send("begun")
                try:
                    await receive()
                    await receive()
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.lowlevel.checkpoint()
                    texts.append("ended")

            exchange = exchange_of(thread)
            running = asyncio.create_task(exchange.run(work, other.receive, other.send))
            await until(lambda: other.items)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (texts, other.has_left) == (["ended"], True)

    plain(main)


def test_nothing_is_received_before_the_work_of_an_exchange_asks_for_it() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            other, texts = Other(), list[str]()

            async def receive() -> str:
                texts.append("an item")
                return await other.receive()

            async def work(_: ReceiveItem[str], send: SendItem[str]) -> None:
                for item in ("one", "two", "three"):
                    await send(item)

            await exchange_of(thread).run(work, receive, other.send)
            assert (texts, other.items) == ([], ["one", "two", "three"])

    plain(main)


def test_when_no_more_items_come_the_work_of_an_exchange_gets_the_last_one_again_and_again() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            other = Other()

            async def receive() -> str:
                raise StreamEndError

            async def work(receive: ReceiveItem[str], send: SendItem[str]) -> None:
                await send(await receive() + await receive())

            await exchange_of(thread).run(work, receive, other.send)
            assert other.items == ["lastlast"]

    plain(main)


def test_the_work_of_an_exchange_learns_that_the_other_side_is_gone_or_takes_too_long() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            other, texts = Other(), list[str]()

            async def fail(_: str) -> None:
                raise ConnectionResetError

            async def hang(_: str) -> None:
                await asyncio.Event().wait()

            async def work(_: ReceiveItem[str], send: SendItem[str]) -> None:
                try:
                    for _number in range(10):
                        await send("x")
                except BrokenPipeError:
                    texts.append("gone")

            await exchange_of(thread).run(work, other.receive, fail)
            await exchange_of(thread, 0.0).run(work, other.receive, hang)
            assert texts == ["gone", "gone"]

    plain(main)


def test_what_sending_and_the_work_of_an_exchange_raise_reaches_its_caller() -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            other = Other()

            async def fail(_: str) -> None:
                raise ValueError("sending")

            async def work(_: ReceiveItem[str], send: SendItem[str]) -> None:
                await send("x")
                raise ValueError("working")

            with pytest.raises(ValueError, match="sending"):
                await exchange_of(thread).run(work, other.receive, fail)
            with pytest.raises(ValueError, match="working"):
                await exchange_of(thread).run(work, other.receive, other.send)

    plain(main)

"""`Exchange`: work on Trio that receives items from a task of an asyncio loop, and sends others to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from agentrail.bridge.streams import BoundedStream, StreamEndError
from agentrail.bridge.trio_thread import TrioThread
from agentrail.bridge.waiters import LoopWaiter, TaskWaiter

T = TypeVar("T")

ReceiveItem: TypeAlias = Callable[[], Awaitable[T]]
SendItem: TypeAlias = Callable[[T], Awaitable[None]]


class Exchange(Generic[T]):
    """Two bounded streams around one call: what gathers in one of them crosses at once."""

    def __init__(self, thread: TrioThread[object], last: T, window: tuple[int, int], seconds: float) -> None:
        outbox = thread.outbox()
        self._thread = thread
        self._last = last
        """What the work receives when no more items come."""
        self._seconds = seconds
        """Seconds that `send` may take for one item; after that, the work's next item raises `BrokenPipeError`."""
        self._control = LoopWaiter(outbox)
        """Wakes who waits for the end of the work."""
        self._received = BoundedStream[T](window[0], LoopWaiter(outbox), TaskWaiter(thread.post))
        self._sent = BoundedStream[T](window[1], TaskWaiter(thread.post), LoopWaiter(outbox))
        self._demand = LoopWaiter(outbox)
        """Wakes the task that receives."""
        self._is_read = False
        """Whether the work has asked for an item; until then none is received."""

    # On Trio

    async def _receive(self) -> T:
        if not self._is_read:
            self._is_read = True
            self._demand.notify()
        try:
            return await self._received.receive()
        except StreamEndError:
            return self._last

    async def _send(self, item: T) -> None:
        try:
            await self._sent.send(item)
        except StreamEndError:
            raise BrokenPipeError from None

    async def _work(self, work: Callable[[ReceiveItem[T], SendItem[T]], Awaitable[None]]) -> None:
        try:
            await work(self._receive, self._send)
        finally:
            self._sent.end()

    # In a task of the loop

    async def run(
        self,
        work: Callable[[ReceiveItem[T], SendItem[T]], Awaitable[None]],
        receive: ReceiveItem[T],
        send: SendItem[T],
    ) -> None:
        """Run *work* on Trio, with functions by which it has *receive* and *send* called here.

        A cancellation cancels the work, and waits for its end. If *send* raises an `OSError` or takes too long, the
        other side has gone, and sending raises `BrokenPipeError` on Trio.
        """
        call = self._thread.begin(partial(self._work, work), self._control)
        receiver = asyncio.get_running_loop().create_task(self._take(receive))
        failure: BaseException | None = None
        try:
            await self._give(send)
        except BaseException as error:  # noqa: BLE001, ASYNC103 - raised below, when nothing runs on Trio any more
            failure = error
            self._thread.cancel(call)
        self._sent.leave()
        cancellation = await self._control.until(call.is_over, partial(self._thread.cancel, call))
        receiver.cancel()
        await asyncio.wait([receiver])
        try:
            if failure is not None or cancellation is not None:
                raise failure or cancellation  # type: ignore[misc]  # one of them is there
            call.answer()
        finally:
            del failure, cancellation  # breaks a reference cycle: its traceback holds this frame

    async def _give(self, send: SendItem[T]) -> None:
        """Pass the items of the work to *send*, until the last one, or until the other side has gone."""
        while True:
            try:
                item = await self._sent.receive()
                async with asyncio.timeout(self._seconds):
                    await send(item)
            except (StreamEndError, OSError):  # `TimeoutError` is an `OSError`
                return

    async def _take(self, receive: ReceiveItem[T]) -> None:
        """Body of the task that receives items, once the work asks for one."""
        while not self._is_read:
            await self._demand.wait()
        error: BaseException | None = None
        try:
            while True:
                await self._received.send(await receive())
        except Exception as raised:  # noqa: BLE001 - the work gets it
            error = raised
        finally:
            self._received.end(error)

"""`BoundedStream`: items on their way from one loop to another, so many at a time; `Exchange`: two around a call.

A stream has one sender and one receiver, each in the thread of its own loop. The sender waits while the window is full,
and is woken when half of it has been taken. The receiver is woken once for all items that have gathered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar, cast

from agentrail.bridge.trio_thread import TrioThread
from agentrail.bridge.waiters import LoopWaiter, TaskWaiter, ThreadWaiter
from agentrail.reprs import in_brackets, listed

T = TypeVar("T")

WINDOW: Final = 256
"""How many items may be on their way, unless the one who opens the stream says otherwise."""


class StreamEndError(Exception):
    """The other end of a stream is gone: no more items come, or nobody takes them."""


AwaitableWaiter: TypeAlias = LoopWaiter | TaskWaiter
"""A waiter of asyncio or of Trio."""


class BoundedStream(Generic[T]):
    """Items between two loops, in order, at most *window* at a time."""

    __slots__ = (
        "_error",
        "_has_ended",
        "_is_left",
        "_items",
        "_last",
        "_receiver",
        "_receiver_waits",
        "_sender",
        "_sender_waits",
        "_window",
    )

    def __init__(self, window: int, sender: AwaitableWaiter, receiver: AwaitableWaiter | ThreadWaiter) -> None:
        self._window = window
        """How many items may be on their way."""
        self._sender = sender
        """Wakes the sender."""
        self._receiver = receiver
        """Wakes the receiver."""
        self._items: deque[T] = deque()
        """Items that were sent and not taken."""
        self._last: T | None = None
        """The item that was taken last; `None` before the first."""
        self._sender_waits = self._receiver_waits = False
        """Whether one of them is about to wait, or waits. Each sets its flag, and then looks again."""
        self._has_ended = False
        """Whether the sender sends no more."""
        self._is_left = False
        """Whether the receiver takes no more."""
        self._error: BaseException | None = None
        """What the receiver gets after the last item; `None` if the stream ended well."""

    @in_brackets
    def __repr__(self) -> str:
        state = "left" if self._is_left else "ended" if self._has_ended else ""
        return listed(f"{len(self._items)} of {self._window} on their way", state)

    @property
    def waiting(self) -> int:
        """Number of items that were sent and not taken."""
        return len(self._items)

    @property
    def last(self) -> T | None:
        """The item that was taken last; `None` before the first."""
        return self._last

    # The sender

    async def send(self, item: T) -> None:
        """Send *item*, when there is room; raise `StreamEndError` if the receiver has left."""
        await self.room()
        self.put((item,))

    async def room(self) -> int:
        """Return how many items there is room for, when there is any; raise `StreamEndError` if the receiver has left.

        It does not become less before the sender has put something.
        """
        while self._must_wait():
            await self._sender.wait()
        self._sender_waits = False
        if self._is_left:
            raise StreamEndError
        return self._window - len(self._items)

    def put(self, items: Sequence[T]) -> None:
        """Send *items*, for which there is room."""
        self._items.extend(items)
        self._wake_receiver()

    def _must_wait(self) -> bool:
        """Whether the sender has to wait; then the receiver is going to wake it."""
        if len(self._items) < self._window or self._is_left:
            return False
        self._sender_waits = True
        return len(self._items) >= self._window and not self._is_left  # it may have changed before the flag was set

    def end(self, error: BaseException | None = None) -> None:
        """Send no more; after the last item, the receiver gets *error*, or learns that it was the last one."""
        if not self._has_ended:
            self._error = error
            self._has_ended = True
            self._wake_receiver()

    def _wake_receiver(self) -> None:
        if self._receiver_waits:
            self._receiver_waits = False
            self._receiver.notify()

    # The receiver

    async def receive(self) -> T:
        """Return the next item; after the last one, raise the sender's error, or `StreamEndError`."""
        while self._is_empty():
            await cast("AwaitableWaiter", self._receiver).wait()
        return self._take()

    def receive_blocking(self) -> T:
        """Do as `receive`, in a thread that may block: the receiver is a `ThreadWaiter`."""
        receiver = cast("ThreadWaiter", self._receiver)
        while self._is_empty():
            receiver.wait()
        return self._take()

    def receive_now(self) -> T | None:
        """Return the next item; `None` if none is there."""
        if not self._items:
            return None
        self._last = item = self._items.popleft()
        if self._sender_waits and 2 * len(self._items) <= self._window:
            self._wake_sender()
        return item

    def _is_empty(self) -> bool:
        """Whether the receiver has to wait; then the sender is going to wake it."""
        if self._items or self._has_ended:
            return False
        self._receiver_waits = True
        return not self._items and not self._has_ended  # it may have changed before the flag was set

    def _take(self) -> T:
        """Remove and return the next item; wake the sender if half of the window is free."""
        self._receiver_waits = False
        item = self.receive_now()
        if item is None:
            error, self._error = self._error, None
            raise StreamEndError if error is None else error
        return item

    def leave(self) -> None:
        """Take no more: the sender's next item raises `StreamEndError`."""
        self._is_left = True
        self._items.clear()
        self._wake_sender()

    def _wake_sender(self) -> None:
        if self._sender_waits:
            self._sender_waits = False
            self._sender.notify()


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
        except GeneratorExit:  # the loop ends without the task, which can wait for nothing any more
            self._thread.cancel(call)
            raise
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

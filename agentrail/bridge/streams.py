"""`BoundedStream`: items on their way from one loop to another, at most so many at a time.

It has one sender and one receiver, each in the thread of its own loop. The sender waits while the window is full, and
is woken when half of it has been taken. The receiver is woken once for all items that have gathered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from typing import Final, Generic, Protocol, TypeVar, cast

from agentrail.bridge.waiters import AnyWaiter, ThreadWaiter
from agentrail.reprs import in_brackets, listed

T = TypeVar("T")

WINDOW: Final = 256
"""How many items may be on their way, unless the one who opens the stream says otherwise."""


class StreamEndError(Exception):
    """The other end of a stream is gone: no more items come, or nobody takes them."""


class AwaitableWaiter(AnyWaiter, Protocol):
    """Interface: a waiter of asyncio or of Trio."""

    def wait(self) -> Awaitable[None]:
        """Wait for the next `notify`."""
        ...


class BoundedStream(Generic[T]):
    """Items between two loops, in order, at most *window* at a time."""

    __slots__ = (
        "_error",
        "_has_ended",
        "_is_left",
        "_items",
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

    # The sender

    async def send(self, item: T) -> None:
        """Send *item*, when there is room; raise `StreamEndError` if the receiver has left."""
        while self._must_wait():
            await self._sender.wait()
        self._sender_waits = False
        if self._is_left:
            raise StreamEndError
        self._items.append(item)
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
        receiver = cast("AwaitableWaiter", self._receiver)
        while self._is_empty():
            await receiver.wait()
        return self._take()

    def receive_blocking(self) -> T:
        """Do as `receive`, in a thread that may block: the receiver is a `ThreadWaiter`."""
        receiver = cast("ThreadWaiter", self._receiver)
        while self._is_empty():
            receiver.wait()
        return self._take()

    def receive_now(self) -> T | None:
        """Return the next item; `None` if none is there."""
        return self._take() if self._items else None

    def _is_empty(self) -> bool:
        """Whether the receiver has to wait; then the sender is going to wake it."""
        if self._items or self._has_ended:
            return False
        self._receiver_waits = True
        return not self._items and not self._has_ended  # it may have changed before the flag was set

    def _take(self) -> T:
        """Remove and return the next item; wake the sender if half of the window is free."""
        self._receiver_waits = False
        if not self._items:
            error, self._error = self._error, None
            raise StreamEndError if error is None else error
        item = self._items.popleft()
        if self._sender_waits and 2 * len(self._items) <= self._window:
            self._wake_sender()
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

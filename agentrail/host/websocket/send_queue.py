"""`SendQueue`: the messages that wait to be sent on one WebSocket, within a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import trio

from agentrail.host.operations.event_frames import AT_ONCE

MAX_AT_ONCE: Final = 16
"""How many messages are sent without a pass of the scheduler."""


class SendQueue:
    """Messages that wait to be sent, in order; a task that adds some waits while too many bytes wait.

    Only one task at a time makes its messages, so memory has the waiting messages and those of one task at most. What
    the system takes at once is sent by the task that adds it, without a pass of the scheduler.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._send_now: Callable[[Sequence[bytes]], bool] = _not_now
        self._sent_now = 0
        self._waiting: deque[bytes] = deque()
        self.unsent = 0
        """How many bytes wait, those of the messages that are being sent among them."""
        self._turn = trio.StrictFIFOLock()  # a task that waits for room comes before all later ones
        self._changed = trio.lowlevel.ParkingLot()
        self._is_over = False

    def open(self, send_now: Callable[[Sequence[bytes]], bool]) -> None:
        """From now on, pass messages to *send_now* if none wait; if that returns false, they wait."""
        self._send_now = send_now

    def put_now(self, *messages: bytes) -> None:
        """Add messages, whether there is room or not; no-op if the queue is closed."""
        if self._is_over or not messages or (not self._waiting and self._send_now(messages)):
            return
        self._waiting += messages
        self.unsent += sum(map(len, messages))
        self._changed.unpark_all()

    async def put(self, make: Callable[[], bytes]) -> None:
        """Wait for a turn and for room, then add the message that *make* returns. An empty queue takes any."""
        await self.put_all(lambda: (make(),))

    async def put_all(self, make: Callable[[], Sequence[bytes]]) -> None:
        """Add the messages that *make* returns, as `put` adds one; what the system takes goes out in one write.

        It may return none, and counts as one then: whoever only looks at events gives way to others too.
        """
        if not self._waiting and not self._turn.locked():
            messages = make()
            self.put_now(*messages)
            self._sent_now += len(messages) or 1
            if self._sent_now >= MAX_AT_ONCE:
                self._sent_now = 0
                await trio.lowlevel.checkpoint()
            return
        if self._turn.locked():
            await self._turn.acquire()
        else:
            self._turn.acquire_nowait()
        try:
            messages = make()
            while not self._has_room(sum(map(len, messages))):
                await self._changed.park()
            self.put_now(*messages)
        finally:
            self._turn.release()

    async def first(self) -> Sequence[bytes]:
        """Wait for messages, and return the first ones, for one write; they stay in the queue until `note_sent`."""
        while not self._waiting:
            await self._changed.park()
        messages, size = list[bytes](), 0
        for message in self._waiting:
            messages.append(message)
            size += len(message)
            if size >= AT_ONCE:
                break
        return messages

    def note_sent(self, count: int) -> None:
        """Note that the first *count* messages have been sent."""
        for _ in range(count):
            self.unsent -= len(self._waiting.popleft())
        self._changed.unpark_all()

    async def emptied(self) -> None:
        """Wait until all messages have been sent."""
        while self._waiting:
            await self._changed.park()

    def close(self) -> None:
        """Drop all messages, now and later: none can be sent any more."""
        self._is_over = True
        self._waiting.clear()
        self.unsent = 0
        self._changed.unpark_all()

    def _has_room(self, size: int) -> bool:
        return self._is_over or not self._waiting or self.unsent + size <= self._most


def _not_now(_: Sequence[bytes]) -> bool:
    return False

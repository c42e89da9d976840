"""`Outbox`: the messages that wait to be sent on one WebSocket, within a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import trio

MOST_AT_ONCE: Final = 16
"""How many messages are sent without a pass of the scheduler."""


class Outbox:
    """Messages that wait to be sent, in order; whoever adds one waits while there are too many bytes.

    A message is made when it has its turn: beside those that wait to be sent, there is one at most. One that the system
    takes at once never waits: it is sent by whoever adds it, without a pass of the scheduler.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._send_now: Callable[[bytes], bool] = _not_now
        self._sent_now = 0
        self._waiting: deque[bytes] = deque()
        self.unsent = 0
        """How many bytes wait, those of the message that is being sent among them."""
        self._turn = trio.StrictFIFOLock()  # whoever waits for room has the place before all who come later
        self._changed = trio.lowlevel.ParkingLot()
        self._is_over = False

    def open(self, send_now: Callable[[bytes], bool]) -> None:
        """Have *send_now* send each message that finds none waiting; if it returns false, the message waits."""
        self._send_now = send_now

    def put_now(self, message: bytes) -> None:
        """Add a message, whether there is room or not; no-op if the outbox is closed."""
        if self._is_over or (not self._waiting and self._send_now(message)):
            return
        self._waiting.append(message)
        self.unsent += len(message)
        self._changed.unpark_all()

    async def put(self, make: Callable[[], bytes]) -> None:
        """Add the message that *make* returns; wait for a turn to make it, then for room. Alone, each fits."""
        if not self._waiting and not self._turn.locked():
            self.put_now(make())
            self._sent_now += 1
            if self._sent_now % MOST_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
            return
        if self._turn.locked():
            await self._turn.acquire()
        else:
            self._turn.acquire_nowait()
        try:
            message = make()
            while not self._has_room(message):
                await self._changed.park()
            self.put_now(message)
        finally:
            self._turn.release()

    async def first(self) -> bytes:
        """Wait for a message, and return the first; it counts until it is told to be `sent`."""
        while not self._waiting:
            await self._changed.park()
        return self._waiting[0]

    def sent(self) -> None:
        """Note that the first message has been sent."""
        self.unsent -= len(self._waiting.popleft())
        self._changed.unpark_all()

    async def emptied(self) -> None:
        """Wait until all messages have been sent."""
        while self._waiting:
            await self._changed.park()

    def close(self) -> None:
        """Take and keep no more messages: none can be sent."""
        self._is_over = True
        self._waiting.clear()
        self.unsent = 0
        self._changed.unpark_all()

    def _has_room(self, message: bytes) -> bool:
        return self._is_over or not self._waiting or self.unsent + len(message) <= self._most


def _not_now(_: bytes) -> bool:
    return False

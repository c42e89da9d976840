"""`ReceivedBody`: the body of a request as a server receives it, and the time that it may take to arrive."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import Final

import trio

from agentrail.api.limits import LEAST_RATE, HostLimits
from agentrail.host.requests.http_messages import Body, PeerGone
from agentrail.host.requests.refusals import BAD_BODY, LATE_BODY, SLOW_BODY, HttpRefusal

LINGER: Final = 1.0
"""Seconds for which the rest of a body is read after an early answer, so that its sender gets the answer."""

MAX_DROPPED: Final = 64
"""Pieces that are read and dropped in that time."""


class ReceivedBody(Body):
    """A body that arrives. One task at a time may read it, or wait until the client has gone.

    Each piece of it has a deadline, and so has all of it: what has come adds to the latter. Only the time that is spent
    reading counts, and not that in which the handler does something else.
    """

    __slots__ = ("_buffer", "_length", "_limits", "_received", "_waited")

    def __init__(self, length: int | None, limits: HostLimits, buffer: bytearray) -> None:
        self._length = length
        self._limits = limits
        self._buffer = buffer
        """What has come and was not read."""
        self._received = len(buffer)
        """Bytes that have come, as they were sent."""
        self._waited = 0.0
        """Seconds spent reading the body."""

    @property
    def length(self) -> int | None:
        """The number of bytes that the client has announced; `None` if it has not."""
        return self._length

    @property
    def limit(self) -> int:
        """The most bytes that `read` takes, if it is given no limit."""
        return self._limits.body_bytes

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the whole body has been taken."""

    @abstractmethod
    def leave(self) -> bool:
        """Drop what has come of it, as nobody reads it any more; return whether the client may send more of it."""

    @abstractmethod
    def _take(self) -> bytes:
        """Take what has come from the buffer, and return its content, which may be empty."""

    @abstractmethod
    async def _more(self) -> bool:
        """Receive into the buffer, without a time limit; return false if the client sends no more."""

    async def chunk(self) -> bytes:
        """Return the next bytes, of any number; no bytes at the end."""
        while not self.ended:
            content = self._take()
            if content:
                await trio.lowlevel.checkpoint()  # many small chunks may have arrived already
                return content
            if not self.ended:
                await self._receive()
        return b""

    async def _receive(self) -> None:
        """Wait for the next piece; raise `HttpRefusal` if it does not come in time."""
        limits, began, byte_count = self._limits, trio.current_time(), len(self._buffer)
        seconds_left = limits.body_seconds + self._received / LEAST_RATE - self._waited
        has_more = True
        with trio.move_on_after(min(limits.body_seconds, max(seconds_left, 0))) as scope:
            has_more = await self._more()
        self._waited += trio.current_time() - began
        self._received += len(self._buffer) - byte_count
        if not has_more:
            raise HttpRefusal(BAD_BODY)
        if not scope.cancelled_caught:
            return
        if seconds_left < limits.body_seconds:
            raise HttpRefusal(SLOW_BODY, self._received, round(self._waited, 1), limits.body_seconds, LEAST_RATE)
        raise HttpRefusal(LATE_BODY, limits.body_seconds)

    async def gone(self) -> None:
        """Return when the client has gone.

        What it sends meanwhile is kept up to the size of a head; beyond that nothing is read, and this never returns.
        """
        with suppress(PeerGone):
            while await self._more():
                if len(self._buffer) > self._limits.header_bytes:
                    await trio.sleep_forever()

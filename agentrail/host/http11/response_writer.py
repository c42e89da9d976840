"""`Outbound`: sends the answers of a connection.

Each piece has a deadline, and so have whole answers: a client that reads too slowly is cut off.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from email.utils import formatdate
from typing import Final

import trio

from agentrail.api.limits import LEAST_RATE, HostLimits
from agentrail.host.http11.response_head import CONTINUE, LAST_CHUNK, ResponseHead, chunk
from agentrail.host.requests.http_messages import PeerGone

SEND_SIZE: Final = 16 * 1024
"""The most bytes that are sent with one deadline, few enough for a slow line. A record of TLS has as many."""


def send_at_once(stream: trio.abc.Stream, data: bytes | bytearray | memoryview) -> int:
    """Send as much of *data* as the system takes without waiting (no checkpoint); return the number of bytes.

    So most pieces need no deadline, which would cost more than sending them. With TLS nothing is sent and 0 returned:
    the stream has a buffer of its own.
    """
    if not isinstance(stream, trio.SocketStream):
        return 0
    try:
        return os.write(stream.socket.fileno(), data)
    # the system takes nothing now, or the connection is broken: the call that sends the rest waits, or gets the error
    except OSError:
        return 0


class DateHeader:
    """The value of the header `Date`, made once a second."""

    __slots__ = ("_now_ms", "_second", "_text")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._second = -1
        self._text = ""

    def text(self) -> str:
        """Return the current date and time, as the header has them."""
        second = self._now_ms() // 1000
        if second != self._second:
            self._second, self._text = second, formatdate(second, usegmt=True)
        return self._text


class Outbound:
    """The sending side of a connection."""

    __slots__ = ("_cut", "_head", "_left", "_limits", "_stream", "_unsent", "sent", "status")

    def __init__(self, stream: trio.abc.Stream, limits: HostLimits) -> None:
        self._stream = stream
        self._limits = limits
        # seconds for which the client may still keep answers waiting; one budget for all answers, as requests may be
        # pipelined
        self._left = limits.answer_seconds
        self._cut = False
        self._head: ResponseHead | None = None  # of a streamed answer
        self._unsent = b""  # the bytes of the head of a streamed answer, until its first piece is sent
        self.status = 0
        """Status of the current answer; 0 before it has begun."""
        self.sent = 0
        """Bytes of content that were sent for the current answer."""

    async def answer(self, head: ResponseHead, content: bytes) -> None:
        """Send a whole answer."""
        self.status, self.sent = head.status, len(content)
        await self._send(head.raw + content)

    def begin(self, head: ResponseHead) -> None:
        """Keep the head of a streamed answer until its first piece or its end: one write less saves 20 µs."""
        self.status, self._head, self._unsent = head.status, head, head.raw

    async def piece(self, data: bytes) -> None:
        """Send a piece of the streamed answer."""
        if data:
            await self._send(self._framed(data), endless=True)

    async def end(self, last: bytes = b"") -> None:
        """End the streamed answer with its *last* piece."""
        await self._send(self._framed(last, is_last=True))

    async def break_off(self) -> None:
        """If the head of a failed streamed answer is still unsent, send it, so that the client sees a cut answer."""
        if self._unsent:
            await self._send(self._framed(b""))

    async def say_continue(self) -> None:
        """Tell the peer to send the body. No-op if its answer has begun: that tells the peer as much."""
        if not self.status:
            await self._send(CONTINUE)

    def _framed(self, data: bytes, *, is_last: bool = False) -> bytes:
        """Return *data* as the bytes to send: chunked if needed, the first piece after the head."""
        head, self._unsent = self._unsent, b""
        self.sent += len(data)
        if self._head is not None and self._head.is_chunked:
            data = chunk(data) + (LAST_CHUNK if is_last else b"")
        return head + data

    async def _send(self, data: bytes, *, endless: bool = False) -> None:
        """Send *data*. A piece of an *endless* stream has its own deadline; other data uses the time in `_left`."""
        if self._cut:
            raise PeerGone
        self._cut = True  # until all of *data* is sent: after half a piece, nothing may follow
        await trio.lowlevel.checkpoint_if_cancelled()
        first = send_at_once(self._stream, data)
        if not endless:
            self._credit(first)
        if first == len(data):
            await trio.lowlevel.cancel_shielded_checkpoint()  # others have their turn
        elif endless:
            for at in range(first, len(data), SEND_SIZE):
                await self._send_within(self._limits.write_seconds, data[at : at + SEND_SIZE])
        else:
            await self._send_in_time(memoryview(data)[first:])
        self._cut = False

    def _credit(self, byte_count: int) -> None:
        """Add time to `_left` for *byte_count* bytes that the client has taken, never above the full budget."""
        self._left = min(self._left + byte_count / LEAST_RATE, self._limits.answer_seconds)

    async def _send_in_time(self, data: memoryview) -> None:
        """Send the rest of an answer; raise `PeerGone` if the client's time is over."""
        for at in range(0, len(data), SEND_SIZE):
            piece, began = data[at : at + SEND_SIZE], trio.current_time()
            await self._send_within(min(self._limits.write_seconds, self._left), piece)
            self._left = max(self._left - (trio.current_time() - began), 0)
            self._credit(len(piece))

    async def _send_within(self, seconds: float, piece: bytes | memoryview) -> None:
        with trio.move_on_after(seconds) as scope:
            try:
                await self._stream.send_all(piece)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise PeerGone from error
        if scope.cancelled_caught:
            raise PeerGone

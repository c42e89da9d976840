"""`Outbound`: sends the answers of a connection. Each piece has a deadline, and so have whole answers.

A client that takes its answers too slowly is cut, and may have to give way to another one before that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from email.utils import formatdate
from typing import Final

import trio

from agentrail.api.limits import HostLimits
from agentrail.host.http11.http_messages import PeerGone
from agentrail.host.http11.places import ConnectionPlace, Wait
from agentrail.host.http11.response_head import CONTINUE, LAST_CHUNK, ResponseHead, chunk

SEND_SIZE: Final = 16 * 1024
"""The most bytes that are sent with one deadline, few enough for a slow line. A record of TLS has as many."""


def send_at_once(stream: trio.abc.Stream, data: bytes | bytearray | memoryview) -> int:
    """Send the beginning of *data* that the system takes now, and return how many bytes it has; no checkpoint.

    So most pieces need no deadline, and to set one costs more than to send them. None is sent on a stream that
    encrypts: it keeps bytes of its own.
    """
    if not isinstance(stream, trio.SocketStream):
        return 0
    try:
        return os.write(stream.socket.fileno(), data)
    except OSError:  # the system takes nothing now, or never again: whoever then sends the rest waits, or is told so
        return 0


class DateHeader:
    """The value of the header `Date`, made once a second."""

    __slots__ = ("_now_ms", "_second", "_text")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._second = -1
        self._text = ""

    def text(self) -> str:
        """Return the date and time of now."""
        second = self._now_ms() // 1000
        if second != self._second:
            self._second, self._text = second, formatdate(second, usegmt=True)
        return self._text


class Outbound:
    """The sending side of a connection."""

    __slots__ = ("_cut", "_head", "_left", "_limits", "_place", "_stream", "_unsent", "sent", "status")

    def __init__(self, stream: trio.abc.Stream, limits: HostLimits, place: ConnectionPlace) -> None:
        self._stream = stream
        self._limits = limits
        self._place = place
        self._left = limits.answer_seconds  # for which answers may wait; for all of them, as requests may be pipelined
        self._cut = False
        self._head: ResponseHead | None = None  # of a streamed answer
        self._unsent = b""  # that head as it is sent, until the first piece
        self.status = 0
        """Status of the current answer; 0 before it has begun."""
        self.sent = 0
        """Bytes of content that were sent for the current answer."""

    async def answer(self, head: ResponseHead, content: bytes) -> None:
        """Send a whole answer."""
        self.status, self.sent = head.status, len(content)
        await self._send(head.raw + content)

    def begin(self, head: ResponseHead) -> None:
        """Have the head of a streamed answer go out with its first piece, or with its end: a write costs 20 µs."""
        self.status, self._head, self._unsent = head.status, head, head.raw

    async def piece(self, data: bytes) -> None:
        """Send a piece of the streamed answer."""
        if data:
            await self._send(self._framed(data), endless=True)

    async def end(self, last: bytes = b"") -> None:
        """End the streamed answer with its *last* piece."""
        await self._send(self._framed(last, is_last=True))

    async def break_off(self) -> None:
        """Send the head of a streamed answer that has failed, if it was not sent: its client sees a cut answer."""
        if self._unsent:
            await self._send(self._framed(b""))

    async def say_continue(self) -> None:
        """Tell the peer to send the body. No-op if its answer has begun: that tells the peer as much."""
        if not self.status:
            await self._send(CONTINUE)

    def _framed(self, data: bytes, *, is_last: bool = False) -> bytes:
        """Return a piece of the streamed answer as it is sent, with the head before the first one."""
        head, self._unsent = self._unsent, b""
        self.sent += len(data)
        if self._head is not None and self._head.is_chunked:
            data = chunk(data) + (LAST_CHUNK if is_last else b"")
        return head + data

    async def _send(self, data: bytes, *, endless: bool = False) -> None:
        """Send *data*, which is a piece of a stream that may be *endless*, or else has its time in all."""
        if self._cut:
            raise PeerGone
        self._cut = True  # until all is sent: after half a piece, nothing may follow
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
        """Give the client more time for what it has *byte_count*, in bytes; it cannot save up any."""
        self._left = min(self._left + byte_count / self._limits.answer_rate, self._limits.answer_seconds)

    async def _send_in_time(self, data: memoryview) -> None:
        """Send the rest of an answer, as long as the client has time left, and its place."""
        with trio.CancelScope() as scope, self._giving_way(scope.cancel):
            for at in range(0, len(data), SEND_SIZE):
                piece, began = data[at : at + SEND_SIZE], trio.current_time()
                await self._send_within(min(self._limits.write_seconds, self._left), piece)
                self._left = max(self._left - (trio.current_time() - began), 0)
                self._credit(len(piece))
        if scope.cancelled_caught:
            raise PeerGone

    def _giving_way(self, end: Callable[[], None]) -> AbstractContextManager[None]:
        """Let the connection give way meanwhile, unless it has: then the client is told so by this very answer."""
        if self._place.gave_way:
            return nullcontext()
        return self._place.waiting(Wait.SENDING, trio.current_time(), end)

    async def _send_within(self, seconds: float, piece: bytes | memoryview) -> None:
        with trio.move_on_after(seconds) as scope:
            try:
                await self._stream.send_all(piece)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise PeerGone from error
        if scope.cancelled_caught:
            raise PeerGone

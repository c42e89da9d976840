"""`ResponseWriter`: sends the answers of a connection.

Each piece has a deadline, and so have whole answers: a client that reads too slowly is cut off.

Writes the head of an answer, and its chunks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import trio

from agentrail.api.limits import LEAST_RATE, HostLimits
from agentrail.host.requests.exchange import AnswerWriter
from agentrail.host.requests.http_messages import Headers, PeerGone

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


def chunk(data: bytes) -> bytes:
    """Return *data* as a chunk; no bytes for empty *data*, as an empty chunk would end the content."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def write_head(status: int, headers: Headers) -> bytes:
    """Return the head of an answer."""
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, '')}", *[f"{name}: {value}" for name, value in headers]]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


SEND_SIZE: Final = 16 * 1024
"""The most bytes that are sent with one deadline, few enough for a slow line. A record of TLS has as many."""

MAX_AT_ONCE: Final = 16
"""How many pieces of a streamed answer are sent without a pass of the scheduler, if they have few bytes.

With a pass after each, a hundred who listen would all be awake for ever: none would wait at the gate for deltas, and
each would write one or two events at a time.
"""


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


class ResponseWriter(AnswerWriter):
    """The sending side of a connection."""

    __slots__ = ("_at_once", "_is_chunked", "_is_cut", "_limits", "_seconds_left", "_stream", "_unsent")

    def __init__(self, stream: trio.abc.Stream, limits: HostLimits) -> None:
        super().__init__()
        self._stream = stream
        self._limits = limits
        self._seconds_left = limits.answer_seconds
        """Seconds for which the client may still keep answers waiting.

        It is one budget for all answers, as requests may be pipelined.
        """
        self._is_cut = False
        """Whether a write was cut, so that nothing may follow."""
        self._is_chunked = False
        """Whether the content of the current answer is sent in chunks."""
        self._at_once = 0
        """Bytes of pieces that were sent since the last pass of the scheduler; a small piece counts for a part."""
        self._unsent = b""
        """The head of an answer until its first piece is sent: one write less saves 20 µs."""

    def begin(self, status: int, head: bytes, *, is_chunked: bool) -> None:
        """Begin an answer, whose *head* is sent with its first piece or its end."""
        self.status, self._unsent, self._is_chunked = status, head, is_chunked

    async def piece(self, data: bytes) -> None:
        """Send a piece of a streamed answer."""
        if data:
            await self._send(self._framed(data), endless=True)

    async def end(self, last: bytes) -> None:
        """Send the *last* piece of an answer, or all of its content."""
        await self._send(self._framed(last, is_last=True))

    def end_at_once(self, last: bytes) -> None:
        """Send what the system takes of an answer now: the connection is about to end."""
        send_at_once(self._stream, self._framed(last, is_last=True))

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
        if self._is_chunked:
            data = chunk(data) + (LAST_CHUNK if is_last else b"")
        return head + data

    async def _send(self, data: bytes, *, endless: bool = False) -> None:
        """Send *data*. A piece of an *endless* stream has its own deadline; other data uses `_seconds_left`."""
        if self._is_cut:
            raise PeerGone
        self._is_cut = True  # until all of *data* is sent: after half a piece, nothing may follow
        await trio.lowlevel.checkpoint_if_cancelled()
        first = send_at_once(self._stream, data)
        if not endless:
            self._credit(first)
        if first == len(data):
            if not endless or self._is_enough(first):
                await trio.lowlevel.cancel_shielded_checkpoint()  # others have their turn
        elif endless:
            for start in range(first, len(data), SEND_SIZE):
                await self._send_within(self._limits.write_seconds, data[start : start + SEND_SIZE])
        else:
            await self._send_in_time(memoryview(data)[first:])
        self._is_cut = False

    def _is_enough(self, byte_count: int) -> bool:
        """Note a piece of so many bytes; return whether others are to have their turn now."""
        self._at_once += max(byte_count, SEND_SIZE // MAX_AT_ONCE)
        if self._at_once < SEND_SIZE:
            return False
        self._at_once = 0
        return True

    def _credit(self, byte_count: int) -> None:
        """Add time to `_seconds_left` for *byte_count* bytes that the client has taken, never above the full budget."""
        self._seconds_left = min(self._seconds_left + byte_count / LEAST_RATE, self._limits.answer_seconds)

    async def _send_in_time(self, data: memoryview) -> None:
        """Send the rest of an answer; raise `PeerGone` if the client's time is over."""
        for start in range(0, len(data), SEND_SIZE):
            piece, began = data[start : start + SEND_SIZE], trio.current_time()
            await self._send_within(min(self._limits.write_seconds, self._seconds_left), piece)
            self._seconds_left = max(self._seconds_left - (trio.current_time() - began), 0)
            self._credit(len(piece))

    async def _send_within(self, seconds: float, piece: bytes | memoryview) -> None:
        with trio.move_on_after(seconds) as scope:
            try:
                await self._stream.send_all(piece)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise PeerGone from error
        if scope.cancelled_caught:
            raise PeerGone

"""`ConnectionBody`: the body of the request that a connection is serving.

`ChunkedBody` and `PlainBody` take exactly the bytes of one body from the buffer of a connection.

`Inbound`: the receiving side of a connection, with the bytes that were received and not parsed yet.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Final, cast

import trio

from agentrail.api.limits import HostLimits
from agentrail.host.http11.request_head import ConnectionHead, refuse_control
from agentrail.host.requests.http_messages import PeerGone, ReceivedBody
from agentrail.host.requests.refusals import BAD_BODY, BAD_HEAD, ENDLESS_LINE, LATE_HEAD, LONG_HEAD, HttpRefusal

PIECE: Final = 64 * 1024
"""The most bytes that are received, or sent, at once."""

_HEAD_END: Final = b"\r\n\r\n"


def receive_at_once(stream: trio.abc.Stream, most: int) -> bytes:
    """Return up to *most* bytes that have already arrived; no bytes if none have, or if the stream uses TLS."""
    if not isinstance(stream, trio.SocketStream):
        return b""
    try:
        return os.read(stream.socket.fileno(), most)
    except OSError:  # nothing is there, or the peer has gone
        return b""


class Inbound:
    """The receiving side of a connection."""

    __slots__ = ("_limits", "_stream", "buffer", "is_fresh")

    def __init__(self, stream: trio.abc.Stream, limits: HostLimits) -> None:
        self._stream = stream
        self._limits = limits
        self.buffer = bytearray()
        self.is_fresh = False
        """Whether `buffer` has bytes that its reader has not looked at."""

    @property
    def has_head(self) -> bool:
        """Whether `buffer` has the whole head of a request, valid or not."""
        return _HEAD_END in self.buffer

    async def more_whenever(self) -> bool:
        """Receive into `buffer` without a time limit; return false if the peer has closed its side."""
        if self.more_at_once():  # not by `receive_some`, which has the bytes to itself while others have their turn
            self.is_fresh = True
            await trio.lowlevel.checkpoint()
            self.is_fresh = False
            return True
        try:
            received = await self._receive()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise PeerGone from error
        self.buffer += received
        return bool(received)

    async def _receive(self) -> bytes | bytearray:
        """Wait for bytes, and return them as soon as they are read; no bytes if the peer has closed its side."""
        if sys.platform == "win32" or not isinstance(self._stream, trio.SocketStream):
            return await self._stream.receive_some(PIECE)
        while True:
            await trio.lowlevel.wait_readable(self._stream.socket)
            try:
                return os.read(self._stream.socket.fileno(), PIECE)
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError from error

    async def shake_hands(self) -> None:
        """Begin TLS, if the connection uses it and has not begun."""
        stream: object = self._stream
        if isinstance(stream, trio.SSLStream):
            try:
                await cast("trio.SSLStream[trio.SocketStream]", stream).do_handshake()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise PeerGone from error

    def more_at_once(self) -> bool:
        """Receive what has already arrived, without waiting; return whether there was any. With TLS, always false."""
        received = receive_at_once(self._stream, PIECE)
        self.buffer += received
        return bool(received)

    async def head(self) -> bytes:
        """Receive the rest of the next head, and take it from `buffer`; raise `HttpRefusal` if it is not valid."""
        end = self._head_end(0)
        if end < 0:
            end = await self._late_head_end()
        head = bytes(self.buffer[: end + len(_HEAD_END)])
        del self.buffer[: len(head)]
        return head

    async def _late_head_end(self) -> int:
        """Receive until `buffer` has a whole head; return the index of its end."""
        seconds = self._limits.header_seconds
        with trio.move_on_after(seconds):
            while True:
                searched = len(self.buffer)
                if not await self.more_whenever():
                    raise HttpRefusal(BAD_HEAD)
                end = self._head_end(searched)
                if end >= 0:
                    return end
        raise HttpRefusal(LATE_HEAD, seconds)

    def _head_end(self, searched: int) -> int:
        """Return the index of the head's end, -1 if it is incomplete; *searched* bytes were checked before."""
        end = self.buffer.find(_HEAD_END, max(searched - len(_HEAD_END), 0), self._limits.header_bytes)
        if end < 0:
            self._refuse(searched)
        return end

    def _refuse(self, searched: int) -> None:
        """Raise `HttpRefusal` if `buffer` cannot become a valid head; *searched* bytes of it were checked before."""
        buffer, most = self.buffer, self._limits.header_bytes
        end = min(len(buffer), most)
        refuse_control(buffer, max(searched - 1, 0), end - buffer.endswith(b"\r", 0, end))
        if len(buffer) >= most:
            raise HttpRefusal(LONG_HEAD if b"\r\n" in buffer[:most] else ENDLESS_LINE, most)


_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_PART_OF_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{0,8}|[0-9A-Fa-f]{1,8}\r")
_MAX_SIZE: Final = 10
_END: Final = b"\r\n"

AT_ONCE: Final = 1_000
"""Chunks that are read without letting other tasks run."""


class PlainBody:
    """A body of `Content-Length` bytes."""

    __slots__ = ("_bytes_left", "ended")

    def __init__(self, length: int) -> None:
        self._bytes_left = length
        self.ended = length == 0
        """Whether the whole body has been taken."""

    def take(self, buffer: bytearray) -> bytes:
        """Remove the bytes of the body from the front of *buffer*, and return them."""
        content = bytes(buffer[: self._bytes_left])
        del buffer[: len(content)]
        self._bytes_left -= len(content)
        self.ended = self._bytes_left == 0
        return content


class ChunkedBody:
    """A body in chunks (RFC 9112, 7.1). Extensions and trailers are refused: other parsers may end them elsewhere."""

    __slots__ = ("_bytes_left", "_last", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._bytes_left: int | None = None
        """Bytes of the current chunk that are still to come; `None` before the line with its size."""
        self._last = False

    def take(self, buffer: bytearray) -> bytes:
        """Remove whole parts of the body from *buffer*, of at most `AT_ONCE` chunks, and return their content."""
        content, end = bytearray(), 0
        for _ in range(AT_ONCE):
            if self._bytes_left is None:
                match = _SIZE.match(buffer, end)
                if match is None:
                    _refuse_other_size(buffer[end : end + _MAX_SIZE])
                    break
                self._bytes_left = int(match[1], 16)
                self._last = self._bytes_left == 0
                end = match.end()
            piece = buffer[end : end + self._bytes_left]
            content += piece
            end += len(piece)
            self._bytes_left -= len(piece)
            if self._bytes_left or not self._ends(bytes(buffer[end : end + 2])):
                break
            end += 2
            self._bytes_left = None
            if self._last:
                self.ended = True
                break
        del buffer[:end]
        return bytes(content)

    def _ends(self, end: bytes) -> bool:
        """Whether *end* is the CRLF after a chunk; false if a part of it is missing. Raise `HttpRefusal` otherwise."""
        if end == _END:
            return True
        if not _END.startswith(end):
            raise HttpRefusal(BAD_BODY)
        return False


def _refuse_other_size(line: bytearray) -> None:
    if not _PART_OF_SIZE.fullmatch(line):
        raise HttpRefusal(BAD_BODY)


class ConnectionBody(ReceivedBody):
    """Reads a body from a connection."""

    __slots__ = ("_framing", "_inbound", "_is_detached", "_say_continue", "_waits")

    def __init__(
        self,
        head: ConnectionHead,
        inbound: Inbound,
        limits: HostLimits,
        say_continue: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(head.length, limits, inbound.buffer)
        self._framing = ChunkedBody() if head.length is None else PlainBody(head.length)
        self._inbound = inbound
        self._say_continue = say_continue
        self._waits = head.expects
        """Whether the peer waits for `100 Continue`."""
        self._is_detached = False

    @property
    def ended(self) -> bool:
        """Whether the whole body has been taken."""
        return self._framing.ended

    def detach(self) -> None:
        """End the reading: what arrives now belongs to the next request, even if a task still holds this body."""
        self._is_detached = True

    def leave(self) -> bool:
        """Drop the bytes of the body that have already arrived; return whether the peer may send more of it.

        True while the peer waits for `100 Continue`: it may send no body, and go on with another request.
        """
        if self._waits:
            return True
        try:
            while self._buffer and not self._framing.ended and self._framing.take(self._buffer):
                pass
        except HttpRefusal:
            return True
        return not self._framing.ended

    def _take(self) -> bytes:
        if self._is_detached:
            raise HttpRefusal(BAD_BODY)
        return self._framing.take(self._buffer)

    async def _receive(self) -> None:
        if self._waits:
            self._waits = False
            if not self._buffer:
                await self._say_continue()
        await super()._receive()

    async def _more(self) -> bool:
        return await self._inbound.more_whenever()

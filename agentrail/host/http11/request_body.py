"""`ConnectionBody`: the body of the request that a connection is serving.

`ChunkedBody` and `PlainBody` take exactly the bytes of one body from the buffer of a connection.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from agentrail.api.limits import HostLimits
from agentrail.host.http11.receive_buffer import Inbound
from agentrail.host.http11.request_head import ConnectionHead
from agentrail.host.requests.received_body import ReceivedBody
from agentrail.host.requests.refusals import BAD_BODY, HttpRefusal

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_PART_OF_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{0,8}|[0-9A-Fa-f]{1,8}\r")
_MAX_SIZE: Final = 10
_END: Final = b"\r\n"

AT_ONCE: Final = 1_000
"""Chunks that are read without letting other tasks run."""


class Framing(Protocol):
    """Interface: finds the end of a body, by its length or by its chunks."""

    @property
    def ended(self) -> bool:
        """Whether the whole body has been taken."""
        ...

    def take(self, buffer: bytearray) -> bytes:
        """Remove the next bytes of the body from the front of *buffer*, and return its content, which may be empty."""
        ...


class PlainBody:
    """A body of `Content-Length` bytes."""

    __slots__ = ("_left", "ended")

    def __init__(self, length: int) -> None:
        self._left = length
        self.ended = length == 0
        """Whether the whole body has been taken."""

    def take(self, buffer: bytearray) -> bytes:
        """Remove the bytes of the body from the front of *buffer*, and return them."""
        content = bytes(buffer[: self._left])
        del buffer[: len(content)]
        self._left -= len(content)
        self.ended = self._left == 0
        return content


class ChunkedBody:
    """A body in chunks (RFC 9112, 7.1). Extensions and trailers are refused: other parsers may end them elsewhere."""

    __slots__ = ("_last", "_left", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._left: int | None = None
        """Bytes of the current chunk that are still to come; `None` before the line with its size."""
        self._last = False

    def take(self, buffer: bytearray) -> bytes:
        """Remove whole parts of the body from *buffer*, of at most `AT_ONCE` chunks, and return their content."""
        content, at = bytearray(), 0
        for _ in range(AT_ONCE):
            if self._left is None:
                match = _SIZE.match(buffer, at)
                if match is None:
                    _refuse_other_size(buffer[at : at + _MAX_SIZE])
                    break
                self._left = int(match[1], 16)
                self._last = self._left == 0
                at = match.end()
            piece = buffer[at : at + self._left]
            content += piece
            at += len(piece)
            self._left -= len(piece)
            if self._left or not self._ends(bytes(buffer[at : at + 2])):
                break
            at += 2
            self._left = None
            if self._last:
                self.ended = True
                break
        del buffer[:at]
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
        self._framing: Framing = ChunkedBody() if head.length is None else PlainBody(head.length)
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

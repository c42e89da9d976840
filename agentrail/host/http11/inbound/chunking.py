"""`ChunkedBody` and `PlainBody`: take the bytes of one body from the buffer of a connection, and not one more."""

from __future__ import annotations

import re
from typing import Final, Protocol

from agentrail.host.http11.refusals import BAD_CHUNK, LONG_CHUNK, TRAILER, HttpRefusal

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_PART_OF_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{0,8}|[0-9A-Fa-f]{1,8}\r")
_LONGEST_SIZE: Final = 10
_END: Final = b"\r\n"

AT_ONCE: Final = 1_000
"""Chunks that are read without letting other tasks run."""


class Framing(Protocol):
    """How the end of a body is found."""

    @property
    def ended(self) -> bool:
        """Whether the whole body has been taken."""
        ...

    def take(self, buffer: bytearray) -> bytes:
        """Remove the next bytes of the body from the front of *buffer*, and return its content, which may be empty."""
        ...


class PlainBody:
    """A body of `Content-Length` bytes."""

    __slots__ = ("_left",)

    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def ended(self) -> bool:
        """Whether the whole body has been taken."""
        return self._left == 0

    def take(self, buffer: bytearray) -> bytes:
        """Remove and return what *buffer* has of the body."""
        content = bytes(buffer[: self._left])
        del buffer[: len(content)]
        self._left -= len(content)
        return content


class ChunkedBody:
    """A body in chunks (RFC 9112, 7.1), without extensions and trailers: other readers may end those elsewhere."""

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
                found = _SIZE.match(buffer, at)
                if found is None:
                    _refuse_other_size(buffer[at : at + _LONGEST_SIZE])
                    break
                self._left = int(found[1], 16)
                self._last = self._left == 0
                at = found.end()
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
        """Whether *end* closes the chunk; raise `HttpRefusal` if it cannot become that."""
        if end == _END:
            return True
        if not _END.startswith(end):
            raise HttpRefusal(TRAILER if self._last else LONG_CHUNK)
        return False


def _refuse_other_size(line: bytearray) -> None:
    if not _PART_OF_SIZE.fullmatch(line):
        raise HttpRefusal(BAD_CHUNK)

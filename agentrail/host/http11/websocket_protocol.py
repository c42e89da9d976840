"""WebSocket without I/O (RFC 6455), as a host speaks it: `MessageReader` reads what a client sends.

The rest writes frames. `MessageReader` is strict and accepts no extension. For a client that breaks a rule, it returns
the code to close with.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from codecs import getincrementaldecoder
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from attrs import frozen

from agentrail.api.socket_frames import TOO_LARGE, too_large

VERSION: Final = "13"
"""Of the protocol, in the handshake."""

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
KNOWN: Final = frozenset({CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG})

NORMAL: Final = 1000
PROTOCOL: Final = 1002
NO_CODE: Final = 1005
NOT_UTF8: Final = 1007

MAX_CONTROL: Final = 125
"""The most bytes of a control frame, and the greatest length that stands in the second byte of a frame."""

FRAGMENT: Final = 64
"""For how many bytes that a message may have it may have a fragment: an empty one takes memory too."""

_ACCEPTED: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_FIN: Final = 0x80
_MASKED: Final = 0x80
_RESERVED: Final = 0x70

_WIDTHS: Final[Mapping[int, int]] = MappingProxyType({MAX_CONTROL + 1: 2, MAX_CONTROL + 2: 8})
"""In how many further bytes a length is told, by the lower bits of the second byte."""

_MIN_OF_WIDTH: Final[Mapping[int, int]] = MappingProxyType({0: 0, 2: MAX_CONTROL + 1, 8: 1 << 16})
"""The least length that is told in so many bytes."""

_SENDABLE: Final = (range(1000, 1004), range(1007, 1015), range(3000, 5000))
"""Codes that a close frame may have: RFC 6455, 7.4, and those registered later."""

_Decoder: Final = getincrementaldecoder("utf-8")


# What is received


@frozen
class Ping:
    """Asks for a `Pong` with the same content."""

    content: bytes


@frozen
class Pong:
    """Answers a `Ping`."""

    content: bytes


@frozen
class Closed:
    """The client closes, and sends nothing more."""

    code: int
    """1005 if its frame had none."""
    reason: str


Received: TypeAlias = str | bytes | Ping | Pong | Closed
"""A whole message, a text or binary, or what a control frame says."""


@frozen
class BrokenRule:
    """Why a connection is closed, as its close frame says it."""

    code: int
    reason: str


class _BrokenRuleError(Exception):
    """Tells `MessageReader.read` of a `BrokenRule`."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.broken = BrokenRule(code, reason)


class MessageReader:
    """Reads what a client sends, messages of at most *most* bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._in_frame = False
        self._opcode = CONTINUATION
        """Opcode of the current frame."""
        self._fin = True
        self._bytes_left = 0
        """Bytes of the frame's content that have not come yet."""
        self._mask = b""
        self._offset = 0
        """Offset in the content of the next byte, which is masked by it."""
        self._control = bytearray()
        """Content of the current control frame."""
        self._is_text = False
        self._decoder = _Decoder()
        self._texts: list[str] = []
        self._binary = bytearray()
        self._size: int | None = None
        """Bytes of the open message's frames; `None` if none is open."""
        self._count = 0
        """Frames of the open message."""
        self._over = False
        self.broken: BrokenRule | None = None
        """Why nothing more is read; `None` as long as no rule is broken."""

    def read(self, data: bytes) -> list[Received]:
        """Parse *data*; return the messages, pings, pongs and close that it completes.

        Returns nothing more after a close frame or a broken rule.
        """
        received: list[Received] = []
        if self._over:
            return received
        self._buffer += data
        try:
            while (self._in_frame or self._begin_frame()) and self._take_content():
                self._end_frame(received)
                if self._over:
                    break
        except _BrokenRuleError as error:
            self._over, self.broken = True, error.broken
        return received

    # The head of a frame, whose rules are checked as soon as its bytes are there

    def _begin_frame(self) -> bool:
        """Take the head of a frame from the buffer; return false if the head is incomplete."""
        buffer = self._buffer
        if not buffer:
            return False
        self._check_first(buffer[0])
        if len(buffer) == 1:
            return False
        self._check_second(buffer[1])
        length, width = buffer[1] & 0x7F, _WIDTHS.get(buffer[1] & 0x7F, 0)
        start = 2 + width
        if len(buffer) < start:
            return False
        if width:
            length = int.from_bytes(buffer[2:start], "big")
        self._check_length(buffer[0] & 0x0F, length, width)
        end = start + 4
        if len(buffer) < end:
            return False
        self._in_frame, self._fin, self._opcode = True, bool(buffer[0] & _FIN), buffer[0] & 0x0F
        self._bytes_left, self._offset, self._mask = length, 0, bytes(buffer[start:end])
        if self._opcode < CLOSE:
            self._is_text = self._opcode == TEXT or (self._opcode == CONTINUATION and self._is_text)
            self._size, self._count = (self._size or 0) + length, self._count + 1
        del buffer[:end]
        return True

    def _check_first(self, byte: int) -> None:
        opcode = byte & 0x0F
        if byte & _RESERVED:
            raise _BrokenRuleError(PROTOCOL, "a reserved bit is set, and no extension was agreed on")
        if opcode not in KNOWN:
            raise _BrokenRuleError(PROTOCOL, "the opcode of a frame is reserved")
        if opcode >= CLOSE:
            if not byte & _FIN:
                raise _BrokenRuleError(PROTOCOL, "a control frame is fragmented")
        elif (opcode == CONTINUATION) == (self._size is None):
            problem = "a fragment continues no message" if self._size is None else "a message begins within another"
            raise _BrokenRuleError(PROTOCOL, problem)

    def _check_second(self, byte: int) -> None:
        if not byte & _MASKED:
            raise _BrokenRuleError(PROTOCOL, "a frame has no mask")
        if self._buffer[0] & 0x0F >= CLOSE and byte & 0x7F > MAX_CONTROL:
            raise _BrokenRuleError(PROTOCOL, "a control frame is too long")

    def _check_length(self, opcode: int, length: int, width: int) -> None:
        if length < _MIN_OF_WIDTH[width] or length >= 1 << 63:
            raise _BrokenRuleError(PROTOCOL, "the length of a frame is told in a wrong way")
        size = (self._size or 0) + length
        if opcode < CLOSE and (size > self._most or self._count > self._most // FRAGMENT):
            raise _BrokenRuleError(TOO_LARGE, too_large(self._most))

    # The content of a frame, piece by piece

    def _take_content(self) -> bool:
        """Take the content of the frame from the buffer, as far as it has arrived; return whether it is complete."""
        piece = bytes(self._buffer[: self._bytes_left])
        del self._buffer[: len(piece)]
        self._bytes_left -= len(piece)
        piece = self._unmask(piece)
        if self._opcode >= CLOSE:
            self._control += piece
        elif self._is_text:
            self._decode(piece)
        else:
            self._binary += piece
        return self._bytes_left == 0

    def _unmask(self, piece: bytes) -> bytes:
        turn, self._offset = self._offset % 4, self._offset + len(piece)
        key = (self._mask[turn:] + self._mask[:turn]) * (len(piece) // 4 + 1)
        number = int.from_bytes(piece, "big") ^ int.from_bytes(key[: len(piece)], "big")
        return number.to_bytes(len(piece), "big")

    def _decode(self, piece: bytes, *, final: bool = False) -> None:
        try:
            text = self._decoder.decode(piece, final)
        except UnicodeDecodeError:
            raise _BrokenRuleError(NOT_UTF8, "a message is no UTF-8") from None
        if text:
            self._texts.append(text)

    def _end_frame(self, received: list[Received]) -> None:
        """At the end of a frame, add the message or control frame that it completes to *received*."""
        self._in_frame = False
        if self._opcode >= CLOSE:
            content = bytes(self._control)
            self._control.clear()
            received.append(self._read_control(content))
        elif self._fin:
            self._size, self._count = None, 0
            received.append(self._whole_text() if self._is_text else self._whole_binary())

    def _read_control(self, content: bytes) -> Received:
        """Parse a control frame; return its ping, pong or close."""
        if self._opcode == PING:
            return Ping(content)
        if self._opcode == PONG:
            return Pong(content)
        self._over = True
        return _read_close(content)

    def _whole_text(self) -> str:
        self._decode(b"", final=True)
        text = "".join(self._texts)
        self._texts.clear()
        return text

    def _whole_binary(self) -> bytes:
        content = bytes(self._binary)
        self._binary.clear()
        return content


def _read_close(content: bytes) -> Closed:
    if not content:
        return Closed(NO_CODE, "")
    code = int.from_bytes(content[:2], "big")
    if len(content) == 1 or not any(code in codes for codes in _SENDABLE):
        raise _BrokenRuleError(PROTOCOL, "a close frame has no code that may be sent")
    try:
        return Closed(code, content[2:].decode())
    except UnicodeDecodeError:
        raise _BrokenRuleError(NOT_UTF8, "the reason of a close frame is no UTF-8") from None


# What is sent


def frame(opcode: int, content: bytes) -> bytes:
    """Return a complete frame."""
    size = len(content)
    if size <= MAX_CONTROL:
        return struct.pack("!BB", _FIN | opcode, size) + content
    if size < 1 << 16:
        return struct.pack("!BBH", _FIN | opcode, MAX_CONTROL + 1, size) + content
    return struct.pack("!BBQ", _FIN | opcode, MAX_CONTROL + 2, size) + content


def close_frame(code: int, reason: str) -> bytes:
    """Return a close frame, with as much of *reason* as fits; for code 1005 it is empty."""
    if code == NO_CODE:
        return frame(CLOSE, b"")
    words = reason.encode()[: MAX_CONTROL - 2].decode(errors="ignore").encode()
    return frame(CLOSE, code.to_bytes(2, "big") + words)


def accepted_key(key: str) -> str:
    """Return the `Sec-WebSocket-Accept` that answers the `Sec-WebSocket-Key` of a handshake."""
    digest = hashlib.sha1(f"{key}{_ACCEPTED}".encode("latin-1"), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode("ascii")

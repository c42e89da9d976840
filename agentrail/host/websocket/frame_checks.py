"""`StrictFrames`: checks the frames of a client before the library reads them, and says with which code to close.

trio-websocket closes the connection without a close frame if a client breaks RFC 6455, takes a message of endless empty
fragments, and keeps all fragments of a message before it looks at their length.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from agentrail.api.socket_frames import TOO_LARGE, too_large

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
KNOWN: Final = frozenset({CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG})

PROTOCOL: Final = 1002
NOT_UTF8: Final = 1007

MOST_CONTROL: Final = 125
"""The most bytes of a control frame, and the greatest length that stands in the second byte of a frame."""

FRAGMENT: Final = 64
"""For how many bytes that a message may have it may have a fragment: an empty one takes memory too."""

_LEAST_OF_WIDTH: Final[Mapping[int, int]] = MappingProxyType({0: 0, 2: MOST_CONTROL + 1, 8: 1 << 16})
"""The least length that is told in so many bytes."""

_SENDABLE: Final = (range(1000, 1004), range(1007, 1015), range(3000, 5000))
"""Codes that a close frame may have: RFC 6455, 7.4, and those registered later."""

_LIBRARY_LACKS: Final = 1014
"""A code that was registered later, which wsproto takes for none."""

_Decoder: Final = getincrementaldecoder("utf-8")


@frozen
class BrokenRule:
    """Why a connection is closed, as its close frame says it."""

    code: int
    reason: str


class _BrokenRuleError(Exception):
    """Tells `read` of a `BrokenRule`."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.broken = BrokenRule(code, reason)


class StrictFrames:
    """Reads along what a client sends, message by message of at most *most* bytes, with no extension."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._head = bytearray()
        self._opcode = CONTINUATION
        self._fin = True
        self._left = 0
        """Bytes of the frame's content that have not come yet."""
        self._mask = b""
        self._at = 0
        """Place in the content of the next byte, which is masked by it."""
        self._is_text = False
        self._text = _Decoder()
        self._size: int | None = None
        """Bytes of the open message's fragments; `None` if none is open."""
        self._count = 0
        """Fragments of the open message."""
        self._close = bytearray()
        self._over = False
        self.broken: BrokenRule | None = None
        """Why nothing more is read; `None` as long as it is."""

    def read(self, data: bytes) -> bytes:
        """Return as much of *data* as may be read on: up to the frame that breaks a rule, or to a close frame."""
        place = start = 0
        try:
            while place < len(data) and not self._over:
                if self._in_content:
                    piece = data[place : place + self._left]
                    place += len(piece)
                    self._content(piece)
                else:
                    start = start if self._head else place
                    self._head.append(data[place])
                    place += 1
                    self._check_head()
        except _BrokenRuleError as error:
            self._over, self.broken = True, error.broken
            return data[:start]
        return data[:place]

    @property
    def _in_content(self) -> bool:
        return self._left > 0

    # The head of a frame, byte by byte

    def _check_head(self) -> None:
        head = self._head
        match len(head):
            case 1:
                self._check_first(head[0])
            case 2:
                self._check_second(head[1])
            case _:
                pass
        width = {126: 2, 127: 8}.get(head[1] & 0x7F, 0) if len(head) > 1 else 0
        if len(head) == 2 + width:
            self._check_length(int.from_bytes(head[2:], "big") if width else head[1] & 0x7F, width)
        elif len(head) == 2 + width + 4 and len(head) > 5:  # noqa: PLR2004 - with its mask
            self._left = int.from_bytes(head[2 : 2 + width], "big") if width else head[1] & 0x7F
            self._mask, self._at = bytes(head[-4:]), 0
            head.clear()
            if not self._left:
                self._frame_over()

    def _check_first(self, byte: int) -> None:
        self._fin, self._opcode = bool(byte & 0x80), byte & 0x0F
        if byte & 0x70:
            raise _BrokenRuleError(PROTOCOL, "a reserved bit is set, and no extension was agreed on")
        if self._opcode not in KNOWN:
            raise _BrokenRuleError(PROTOCOL, "the opcode of a frame is reserved")
        if self._opcode >= CLOSE:
            if not self._fin:
                raise _BrokenRuleError(PROTOCOL, "a control frame is fragmented")
        elif (self._opcode == CONTINUATION) == (self._size is None):
            problem = "a fragment continues no message" if self._size is None else "a message begins within another"
            raise _BrokenRuleError(PROTOCOL, problem)
        elif self._opcode != CONTINUATION:
            self._is_text = self._opcode == TEXT

    def _check_second(self, byte: int) -> None:
        if not byte & 0x80:
            raise _BrokenRuleError(PROTOCOL, "a frame has no mask")
        if self._opcode >= CLOSE and byte & 0x7F > MOST_CONTROL:
            raise _BrokenRuleError(PROTOCOL, "a control frame is too long")

    def _check_length(self, length: int, width: int) -> None:
        if length < _LEAST_OF_WIDTH[width] or length >= 1 << 63:
            raise _BrokenRuleError(PROTOCOL, "the length of a frame is told in a wrong way")
        if self._opcode < CLOSE:
            self._size = (self._size or 0) + length
            self._count += 1
            if self._size > self._most or self._count > self._most // FRAGMENT + 1:
                raise _BrokenRuleError(TOO_LARGE, too_large(self._most))

    # The content of a frame, piece by piece

    def _content(self, piece: bytes) -> None:
        self._left -= len(piece)
        if self._opcode < CLOSE and self._is_text:
            self._decode(self._unmasked(piece))
        elif self._opcode == CLOSE:
            self._close += self._unmasked(piece)
        self._at += len(piece)
        if not self._left:
            self._frame_over()

    def _unmasked(self, piece: bytes) -> bytes:
        turn = self._at % 4
        key = (self._mask[turn:] + self._mask[:turn]) * (len(piece) // 4 + 1)
        number = int.from_bytes(piece, "big") ^ int.from_bytes(key[: len(piece)], "big")
        return number.to_bytes(len(piece), "big")

    def _decode(self, piece: bytes, *, final: bool = False) -> None:
        try:
            self._text.decode(piece, final)
        except UnicodeDecodeError:
            raise _BrokenRuleError(NOT_UTF8, "a message is no UTF-8") from None

    def _frame_over(self) -> None:
        if self._opcode == CLOSE:
            self._check_close(bytes(self._close))
            self._over = True
        elif self._opcode < CLOSE and self._fin:
            if self._is_text:
                self._decode(b"", final=True)
            self._size, self._count = None, 0

    def _check_close(self, content: bytes) -> None:
        if not content:
            return
        code = int.from_bytes(content[:2], "big")
        if len(content) == 1 or not any(code in codes for codes in _SENDABLE):
            raise _BrokenRuleError(PROTOCOL, "a close frame has no code that may be sent")
        try:
            reason = content[2:].decode()
        except UnicodeDecodeError:
            raise _BrokenRuleError(NOT_UTF8, "the reason of a close frame is no UTF-8") from None
        if code == _LIBRARY_LACKS:
            raise _BrokenRuleError(code, reason)

"""Frames of WebSocket as bytes, right and wrong ones; written from RFC 6455, without a library."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from attrs import frozen

MASK: Final = b"\x37\xfa\x21\x3d"
"""The mask of the example in RFC 6455, 5.7."""

SMALL: Final = 125
"""The most bytes whose number fits into the second byte of a frame."""

MEDIUM: Final = 0xFFFF
"""The most bytes whose number is told in two bytes."""


class Opcode(IntEnum):
    """Kinds of frames; the others are reserved."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


RESERVED: Final = tuple(number for number in range(16) if number not in set(Opcode))

CONTROL: Final = 8
"""Opcodes from here on are control frames."""


@frozen
class Frame:
    """A frame that came."""

    opcode: int
    payload: bytes
    fin: bool


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    reserved: int = 0,
    mask: bytes | None = MASK,
    width: int | None = None,
    told_length: int | None = None,
) -> bytes:
    """Return a frame. *width* is how many bytes tell its length (0, 2 or 8), and *told_length* what they tell."""
    length = len(payload) if told_length is None else told_length
    if width is None:
        width = 0 if length <= SMALL else 2 if length <= MEDIUM else 8
    first = (fin << 7) | (reserved << 4) | opcode
    second = ((mask is not None) << 7) | {0: length, 2: 126, 8: 127}[width]
    head = bytes((first, second)) + (length.to_bytes(width, "big") if width else b"")
    return head + (payload if mask is None else mask + masked(payload, mask))


def masked(payload: bytes, mask: bytes) -> bytes:
    """Return *payload* with each byte masked; twice gives the payload again."""
    key = (mask * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(len(payload), "big")


def close(code: int | None = None, reason: bytes = b"") -> bytes:
    """Return a close frame."""
    return frame(Opcode.CLOSE, (b"" if code is None else code.to_bytes(2, "big")) + reason)


class LawlessError(AssertionError):
    """A server has sent a frame that RFC 6455 forbids."""


def keeps(law: str, is_kept: object, result: object) -> None:
    """Raise `LawlessError` if a law *is_kept* not."""
    if not is_kept:
        raise LawlessError(law, result)


class FrameReader:
    """Reads the frames of a server, and checks that each keeps to RFC 6455."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_open = False
        self._is_over = False

    def read(self, data: bytes) -> list[Frame]:
        """Return the frames that are whole with *data*."""
        self._rest += data
        frames: list[Frame] = []
        while (item := self._next()) is not None:
            self._check(item)
            frames.append(item)
        return frames

    @property
    def rest(self) -> int:
        """Bytes of a frame that is not whole."""
        return len(self._rest)

    def _next(self) -> Frame | None:
        head = self._rest
        if len(head) < 2:
            return None
        width = {126: 2, 127: 8}.get(head[1] & 0x7F, 0)
        length = int.from_bytes(head[2 : 2 + width], "big") if width else head[1] & 0x7F
        end = 2 + width + length
        if len(head) < 2 + width or len(head) < end:
            return None
        keeps("no reserved bits and no mask", not head[0] & 0x70 and not head[1] & 0x80, head[:2])
        keeps("the shortest length", length > {0: -1, 2: SMALL, 8: MEDIUM}[width], head[:14])
        self._rest = head[end:]
        return Frame(head[0] & 0x0F, head[2 + width : end], bool(head[0] & 0x80))

    def _check(self, item: Frame) -> None:
        keeps("nothing after the close frame", not self._is_over, item)
        keeps("no reserved opcode", item.opcode not in RESERVED, item)
        if item.opcode >= CONTROL:
            keeps("short control frames, in one piece", item.fin and len(item.payload) <= SMALL, item)
            self._is_over = item.opcode == Opcode.CLOSE
        else:
            keeps("fragments in order", (item.opcode == Opcode.CONTINUATION) == self._is_open, item)
            self._is_open = not item.fin

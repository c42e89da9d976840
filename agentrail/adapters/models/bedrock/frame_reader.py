"""Parses frames of AWS (`application/vnd.amazon.eventstream`) from bytes, in pieces of any size, without I/O.

A frame has its length, the length of its headers, a checksum of both, the headers, the payload, and a checksum of all
before. An exception of the service in a frame becomes an event `exception`, whose data is an error object.
"""

from __future__ import annotations

import json
from struct import unpack_from
from typing import Final
from zlib import crc32

from agentrail.adapters.models.sse import ServerEvent
from agentrail.errors import StreamGarbled

EXCEPTION: Final = "exception"
"""Name of the event for an exception of the service, and the type of its frame."""

MAX_FRAME: Final = 24 * 1024 * 1024
"""The most bytes of one frame: AWS's own limit of a payload is 16 MiB, and its readers take 24."""

PRELUDE: Final = 12
"""Bytes of the two lengths and their checksum."""

CHECKSUM: Final = 4

FIXED: Final = {2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""The bytes of values of headers that are numbers, times or UUIDs, by type."""

TRUE, FALSE, BYTES, TEXT = 0, 1, 6, 7
"""The other types of headers."""


class FrameReader:
    """Parses one stream of frames."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Take the next *piece* of the stream, and return the events that it completes."""
        self._buffer += piece
        events: list[ServerEvent] = []
        start = 0
        while (end := self._end_of_frame(start)) is not None:
            events.append(_event(bytes(self._buffer[start:end])))
            start = end
        del self._buffer[:start]
        return events

    def end(self) -> list[ServerEvent]:
        """Finish the stream: a frame is whole, or nothing."""
        return []

    def _end_of_frame(self, start: int) -> int | None:
        """Return where the frame at *start* ends, or `None` if not all of it has come."""
        available = len(self._buffer) - start
        if available < PRELUDE:
            return None
        size, headers, checksum = unpack_from(">III", self._buffer, start)
        if crc32(self._buffer[start : start + 8]) != checksum:
            problem = "the lengths of a frame do not fit their checksum"
            raise StreamGarbled(problem)
        if not PRELUDE + CHECKSUM + headers <= size <= MAX_FRAME:
            problem = f"a frame says that it has {size} bytes, {headers} of them headers"
            raise StreamGarbled(problem)
        return start + size if available >= size else None


def _event(frame: bytes) -> ServerEvent:
    content = frame[:-CHECKSUM]
    if crc32(content).to_bytes(CHECKSUM) != frame[-CHECKSUM:]:
        problem = "a frame does not fit its checksum"
        raise StreamGarbled(problem)
    (size,) = unpack_from(">I", frame, 4)
    headers = _headers(content[PRELUDE : PRELUDE + size])
    payload = content[PRELUDE + size :].decode("utf-8", "replace")
    match headers.get(":message-type", "event"):
        case "exception":
            return ServerEvent(EXCEPTION, _error(headers.get(":exception-type", ""), _message(payload)))
        case "error":
            return ServerEvent(EXCEPTION, _error(headers.get(":error-code", ""), headers.get(":error-message", "")))
        case _:
            return ServerEvent(headers.get(":event-type", ""), payload)


def _error(kind: str, message: str) -> str:
    """Return an error object; the type begins with a small letter in frames, and with a large one in headers."""
    return json.dumps({"error": {"type": kind[:1].upper() + kind[1:], "message": message}})


def _message(payload: str) -> str:
    try:
        fields: object = json.loads(payload)
    except (ValueError, RecursionError):
        return payload
    message: object = fields.get("message") if isinstance(fields, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return message if isinstance(message, str) else payload


def _headers(block: bytes) -> dict[str, str]:
    """Return the headers that are texts, by name; the others say nothing that is needed."""
    headers: dict[str, str] = {}
    index = 0
    try:
        while index < len(block):
            size = block[index]
            name = block[index + 1 : index + 1 + size].decode("utf-8", "replace")
            kind = block[index + 1 + size]
            index += 2 + size
            value, index = _value(block, kind, index)
            if kind == TEXT:
                headers[name] = value.decode("utf-8", "replace")
    except IndexError:
        problem = "a frame ends within its headers"
        raise StreamGarbled(problem) from None
    return headers


def _value(block: bytes, kind: int, index: int) -> tuple[bytes, int]:
    """Return the bytes of a value of this *kind* at *index*, and the index after it."""
    if kind in {TRUE, FALSE}:
        return b"", index
    if kind in {BYTES, TEXT}:
        size = int.from_bytes(block[index : index + 2])
        index += 2
    elif kind in FIXED:
        size = FIXED[kind]
    else:
        problem = f"a frame has a header of the unknown type {kind}"
        raise StreamGarbled(problem)
    if index + size > len(block):
        raise IndexError
    return block[index : index + size], index + size

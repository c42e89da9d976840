"""Parses server-sent events from bytes, in pieces of any size, without I/O.

It follows the parsing rules of the standard (CR, LF or CRLF; comments; several `data` lines; one byte order mark), with
two exceptions: an event at the end of the stream counts even without the empty line after it (`EventReader.end`), and
an error that a server writes as bare JSON, without `data:`, counts as an event.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple, cast

from agentrail.errors import StreamGarbled

MAX_EVENT: Final = 16 * 1024 * 1024
"""The most bytes of one event, unless `EventReader` is given another limit; more raise `StreamGarbled`."""

_BOM: Final = b"\xef\xbb\xbf"
_ENDS: Final = (b"\n", b"\r")

_JSON: Final = (b"{", b"[")
"""How a line begins that is no field of an event, but may be an error."""

MAX_BARE: Final = 64 * 1024
"""The most bytes of an error without `data:`; what is longer is none."""


class ServerEvent(NamedTuple):
    """One server-sent event."""

    name: str
    """The type of the event (its field `event`); empty if it has none."""
    data: str
    """The `data` lines of the event, joined with newlines."""


class EventReader:
    """Parses one stream of server-sent events."""

    __slots__ = ("_after_cr", "_bare", "_begun", "_data", "_limit", "_name", "_rest", "_size")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._rest: list[bytes] = []
        self._data: list[str] = []
        self._bare = bytearray()
        self._name = ""
        self._size = 0
        self._begun = False
        self._after_cr = False

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Take the next *piece* of the stream, and return the events that it completes."""
        if not piece:
            return []
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_cr = piece.endswith(b"\r")
        self._size += len(piece)
        if b"\n" not in piece and b"\r" not in piece:
            if piece:
                self._rest.append(piece)
            self._check()
            return []
        lines = (b"".join(self._rest) + piece).splitlines()
        self._rest = [] if piece.endswith(_ENDS) else [lines.pop()]
        events = [event for line in lines if (event := self._line(line)) is not None]
        self._check()
        return events

    def end(self) -> list[ServerEvent]:
        """Finish the stream; return its last event if that was not followed by an empty line."""
        if self._rest:
            self._line(b"".join(self._rest))
        event = self._finish_event()
        return [] if event is None else [event]

    def _check(self) -> None:
        if self._size > self._limit:
            problem = f"one event has more than {self._limit} bytes"
            raise StreamGarbled(problem)

    def _line(self, line: bytes) -> ServerEvent | None:
        """Take a line; return the event if the line completes one, else `None`."""
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._finish_event()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value.decode("utf-8", "replace"))
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif self._bare or line.startswith(_JSON):
            self._bare += line + b"\n"
        return None

    def _finish_event(self) -> ServerEvent | None:
        data, name = self._data, self._name
        if self._bare:
            data = data or _bare_error(self._bare)
            self._bare = bytearray()
        self._name = ""
        self._size = sum(map(len, self._rest))
        if not data:
            return None
        self._data = []
        return ServerEvent(name, data[0] if len(data) == 1 else "\n".join(data))


def _bare_error(json_bytes: bytearray) -> list[str]:
    """Return the error in *json_bytes*, JSON that stands in the stream without `data:`, as data; nothing if it is none.

    Google's servers write the errors so that end an answer which has begun; some of them as a list.
    """
    try:
        parsed: object = json.loads(json_bytes) if len(json_bytes) <= MAX_BARE else None
    except (ValueError, RecursionError):
        return []
    if isinstance(parsed, list) and parsed:
        parsed = cast("list[object]", parsed)[0]
    is_error = isinstance(parsed, dict) and bool(cast("dict[str, object]", parsed).get("error"))
    return [json.dumps(parsed)] if is_error else []

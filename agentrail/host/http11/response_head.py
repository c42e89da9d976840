"""Writes the head of an answer, and its chunks."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from agentrail.host.requests.http_messages import Headers

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

"""`ResponseHead`: the head of an answer as bytes, and whether its content is sent in chunks."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from attrs import frozen

from agentrail.errors import BadChoice, WrongType
from agentrail.host.http11.http_messages import OWNED, WITHOUT_CONTENT, Headers, HttpResponse

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_FINAL: Final = range(200, 1000)
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"(?:[!-~]+(?:[ \t]+[!-~]+)*)?")


@frozen
class ResponseHead:
    """The head of an answer, which the handler's headers cannot break out of."""

    status: int
    raw: bytes
    """As it is sent, with the empty line at its end."""
    is_chunked: bool
    """Whether the content comes in chunks; if not, its length is in the head, or it ends with the connection."""


def chunk(data: bytes) -> bytes:
    """Return *data* as a chunk; no bytes for empty *data*, as an empty chunk would end the content."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def write_head(response: HttpResponse, more: Headers, *, can_chunk: bool, close: bool) -> ResponseHead:
    """Return the head of *response*, with the headers *more*. If the client *can_chunk*, streamed content is chunked.

    Raise an exception of any class if the handler's *response* is not valid.
    """
    status, content = response.status, response.content
    if status not in _FINAL:
        raise BadChoice("status", status, "those of an answer, 200 to 999")
    if not OWNED.isdisjoint([name.lower() for name, _ in response.headers]):
        raise BadChoice("headers", response.headers, "headers that the connection does not set")
    headers, is_chunked = [*response.headers, *more], False
    if status in WITHOUT_CONTENT:
        if content != b"":
            raise BadChoice("status", status, "those that have content")
    elif isinstance(content, bytes):
        headers.append(("content-length", str(len(content))))
    elif not callable(content):
        raise WrongType.of("content", content, "bytes or a function that streams")
    elif can_chunk:
        is_chunked = True
        headers.append(("transfer-encoding", "chunked"))
    if status == HTTPStatus.UPGRADE_REQUIRED:
        headers += [("upgrade", "websocket"), ("connection", "upgrade")]
    if close:
        headers.append(("connection", "close"))
    lines = [f"HTTP/1.1 {int(status)} {_PHRASES.get(status, '')}", *[_line(name, value) for name, value in headers]]
    return ResponseHead(int(status), "\r\n".join([*lines, "", ""]).encode("ascii"), is_chunked)


def _line(name: str, value: str) -> str:
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise BadChoice("headers", (name, value), "headers of visible ASCII characters")
    return f"{name}: {value}"

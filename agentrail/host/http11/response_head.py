"""`ResponseHead`: the head of an answer as bytes, and whether its content is sent in chunks."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from attrs import frozen

from agentrail.host.requests.http_messages import WITHOUT_CONTENT, Headers, HttpResponse

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


@frozen
class ResponseHead:
    """The head of an answer."""

    status: int
    raw: bytes
    """As it is sent, with the empty line at its end."""
    is_chunked: bool
    """Whether the content comes in chunks; if not, its length is in the head, or it ends with the connection."""


def chunk(data: bytes) -> bytes:
    """Return *data* as a chunk; no bytes for empty *data*, as an empty chunk would end the content."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def write_head(response: HttpResponse, more: Headers, *, can_chunk: bool, close: bool) -> ResponseHead:
    """Return the head of *response*, with the headers *more*. If the client *can_chunk*, streams are chunked."""
    status, content = response.status, response.content
    headers, is_chunked = [*response.headers, *more], False
    if isinstance(content, bytes):
        if status not in WITHOUT_CONTENT:
            headers.append(("content-length", str(len(content))))
    elif can_chunk:
        is_chunked = True
        headers.append(("transfer-encoding", "chunked"))
    if status == HTTPStatus.UPGRADE_REQUIRED:
        headers += [("upgrade", "websocket"), ("connection", "upgrade")]
    if close:
        headers.append(("connection", "close"))
    lines = [f"HTTP/1.1 {int(status)} {_PHRASES.get(status, '')}", *[f"{name}: {value}" for name, value in headers]]
    return ResponseHead(int(status), "\r\n".join([*lines, "", ""]).encode("ascii"), is_chunked)

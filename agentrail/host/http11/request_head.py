"""Reads the head of a request.

Where RFC 9112 lets a server be lenient, this one is not: see `request_checks`, which has what holds for other servers.

Handshakes of WebSockets in HTTP/1.1 (RFC 6455, section 4.2): what is wrong with a request, and the answer to it.
"""

from __future__ import annotations

import binascii
import re
import sys
from base64 import b64decode
from typing import Final

from attrs import frozen

from agentrail.host.http11.websocket_protocol import VERSION, accepted_key
from agentrail.host.requests.http_messages import NO_UPGRADE, Headers, words_of
from agentrail.host.requests.refusals import (
    BAD_HEAD,
    OTHER_CODING,
    OTHER_EXPECTATION,
    OTHER_VERSION,
    UNKNOWN_LENGTH,
    HttpRefusal,
)
from agentrail.host.requests.request_checks import RequestHead, check_headers, check_method, split_target

BARE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)")
"""An end of line that is not CR LF. A CR at the very end counts as one too."""

_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VERSION: Final = re.compile(r"HTTP/[0-9](\.[0-9])?")
_LENGTH: Final = re.compile(r"0|[1-9][0-9]{0,17}")


@frozen
class ConnectionHead(RequestHead):
    """The head of a request, and what it says of its connection."""

    target: str
    """As it was sent."""
    expects: bool
    """Whether the peer waits for `100 Continue` before it sends the body."""
    is_last: bool
    """Whether the connection ends with the answer: so the peer asks, or speaks HTTP/1.0."""
    can_chunk: bool
    """Whether the peer understands an answer in chunks: not in HTTP/1.0."""
    upgrades: bool
    """Whether the connection may go on with another protocol: a GET of HTTP/1.1 that asks for it, and has no body."""


NO_HEAD: Final = ConnectionHead("-", "-", "", (), 0, "-", expects=False, is_last=True, can_chunk=False, upgrades=False)
"""In place of the head of a request that is not known, as it has not come or is not valid."""


def read_head(raw: bytes) -> ConnectionHead:
    """Return the head in *raw*, which ends with an empty line; raise `HttpRefusal` if it is not valid."""
    refuse_control(raw)
    request_line, *lines = raw[:-4].decode("latin-1").split("\r\n")
    method, target, version = _request_line(request_line)
    headers = tuple(map(_header, lines))
    single_headers = check_headers(headers)
    path, query = split_target(target)
    _refuse_other_expectation(single_headers)
    length = _length(single_headers, method, version)
    is_http_1_1 = version == "HTTP/1.1"
    expects = is_http_1_1 and "expect" in single_headers and length != 0
    options = words_of(headers, "connection")
    is_last = not is_http_1_1 or "close" in options
    upgrades = (method, is_http_1_1, length) == ("GET", True, 0) and "upgrade" in options and _names_upgrade(headers)
    return ConnectionHead(method, path, query, headers, length, target, expects, is_last, is_http_1_1, upgrades)


def _names_upgrade(headers: Headers) -> bool:
    return any(name == "upgrade" for name, _ in headers)


def refuse_control(raw: bytes | bytearray, start: int = 0, end: int = sys.maxsize) -> None:
    """Raise `HttpRefusal` if *raw* has, from *start* to *end*, a bare CR or LF or another control character."""
    if BARE.search(raw, start, end) or _CONTROL.search(raw, start, end):
        raise HttpRefusal(BAD_HEAD)


def _request_line(line: str) -> tuple[str, str, str]:
    parts = line.split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]):  # noqa: PLR2004 - method, target, version
        raise HttpRefusal(BAD_HEAD)
    method, target, version = parts
    if version not in {"HTTP/1.1", "HTTP/1.0"}:
        if _VERSION.fullmatch(version):
            raise HttpRefusal(OTHER_VERSION, version)
        raise HttpRefusal(BAD_HEAD)
    check_method(method)
    return method, target, version


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN.fullmatch(name):
        raise HttpRefusal(BAD_HEAD)
    return name.lower(), value.strip(" \t")


def _length(single_headers: dict[str, str], method: str, version: str) -> int | None:
    """Return the length of the body; `None` if it comes in chunks."""
    coding, length = single_headers.get("transfer-encoding"), single_headers.get("content-length")
    if coding is not None:
        if version == "HTTP/1.0":
            raise HttpRefusal(BAD_HEAD)
        if coding.lower() != "chunked":
            raise HttpRefusal(OTHER_CODING)
        return None
    if length is None:
        # In HTTP/1.0, a body without a length ends with the connection; and a client that expects `100 Continue` has a
        # body.
        if (version == "HTTP/1.0" and method in {"PATCH", "POST", "PUT"}) or "expect" in single_headers:
            raise HttpRefusal(UNKNOWN_LENGTH)
        return 0
    if not _LENGTH.fullmatch(length):
        raise HttpRefusal(BAD_HEAD)
    return int(length)


def _refuse_other_expectation(single_headers: dict[str, str]) -> None:
    if single_headers.get("expect", "100-continue").lower() != "100-continue":
        raise HttpRefusal(OTHER_EXPECTATION)


KEY: Final = "sec-websocket-key"
KEY_BYTES: Final = 16

NO_KEY: Final = "its header `Sec-WebSocket-Key` is not one of 16 bytes in base64"
OTHER_SOCKET_VERSION: Final = "its header `Sec-WebSocket-Version` is not `13`"


def upgrade_problem(head: ConnectionHead) -> str:
    """Return why the request opens no WebSocket; no text if it does."""
    if not head.upgrades or "websocket" not in words_of(head.headers, "upgrade"):
        return NO_UPGRADE
    if _all(head, "sec-websocket-version") != [VERSION]:
        return OTHER_SOCKET_VERSION
    keys = _all(head, KEY)
    return "" if len(keys) == 1 and _is_key(keys[0]) else NO_KEY


def handshake_answer(head: ConnectionHead, subprotocol: str | None, headers: Headers) -> bytes:
    """Return the answer, with these *headers*, to a request that opens a WebSocket: what follows it are frames."""
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accepted_key(_all(head, KEY)[0])}",
        *([f"Sec-WebSocket-Protocol: {subprotocol}"] if subprotocol is not None else []),
        *[f"{name}: {value}" for name, value in headers],
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


def _all(head: ConnectionHead, name: str) -> list[str]:
    return [value for key, value in head.headers if key == name]


def _is_key(text: str) -> bool:
    try:
        return len(b64decode(text.encode("latin-1"), validate=True)) == KEY_BYTES
    except binascii.Error:
        return False

"""Cases of the handshake of RFC 6455, section 4: what a client sends, and with which status a server answers."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import field, frozen

from tests.host.rfc6455.raw_peer import KEY

RIGHT: Final[Mapping[str, str]] = {
    "Host": "127.0.0.1",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
}
"""The headers of a handshake that is right."""

SWITCHED: Final = 101
BAD: Final = 400
METHOD: Final = 405
UPGRADE: Final = 426


@frozen
class Handshake:
    """A request, and what has to be the status of the answer."""

    section: str
    name: str
    headers: Mapping[str, str | None]
    """Headers in place of those that are `RIGHT`; `None` leaves one out."""
    status: int
    answered: Mapping[str, str | None] = field(factory=dict[str, str | None])
    """Headers of the answer; `None` for one that may not be there."""
    first: str = "GET {} HTTP/1.1"
    more: bytes = b""
    """Bytes after the headers, and further headers before them if it begins with a name."""

    def sent(self, path: str, *others: str) -> bytes:
        """Return the request for *path*, with *others* as further headers."""
        stored = {**RIGHT, **self.headers}
        lines = [f"{name}: {value}" for name, value in stored.items() if value is not None]
        head = "\r\n".join([self.first.format(path), *lines, *others])
        return head.encode("latin-1") + b"\r\n" + (self.more or b"\r\n")


def _key(length: int) -> str:
    return base64.b64encode(b"k" * length).decode()


def taken() -> Iterator[Handshake]:
    """Yield handshakes that are right."""
    yield Handshake("4.1", "as in the example", {}, SWITCHED, {"upgrade": "websocket", "connection": "Upgrade"})
    lower = dict.fromkeys(RIGHT)
    yield Handshake(
        "4.2.1",
        "names in small letters, words in capitals",
        {
            **lower,
            "host": "127.0.0.1",
            "upgrade": "WEBSOCKET",
            "connection": "UPGRADE",
            "sec-websocket-key": KEY,
            "sec-websocket-version": "13",
        },
        SWITCHED,
    )
    yield Handshake("4.2.1", "more words in Connection", {"Connection": "keep-alive, Upgrade"}, SWITCHED)
    none: Mapping[str, str | None] = {"sec-websocket-extensions": None}
    deflate = "permessage-deflate; client_max_window_bits"
    for name, offered in {"compression": deflate, "unknown": "x-foo; a=b", "two": f"{deflate}, x-bar"}.items():
        yield Handshake("9.1", f"extensions offered: {name}", {"Sec-WebSocket-Extensions": offered}, SWITCHED, none)


def refused() -> Iterator[Handshake]:
    """Yield handshakes that are wrong."""
    yield Handshake("4.2.1", "no key", {"Sec-WebSocket-Key": None}, UPGRADE)
    keys = {
        "empty": "",
        "of 15 bytes": _key(15),
        "of 17 bytes": _key(17),
        "of 32 bytes": _key(32),
        "without its end": KEY.rstrip("="),
        "with other characters": "*" * 22 + "==",
        "with a space within": f"{KEY[:8]} {KEY[8:]}",
        "and another": f"{KEY}, {KEY}",
    }
    for name, key in keys.items():
        yield Handshake("4.2.1", f"key {name}", {"Sec-WebSocket-Key": key}, UPGRADE)
    yield Handshake("11.3.1", "two keys", {}, UPGRADE, more=f"Sec-WebSocket-Key: {KEY}\r\n\r\n".encode())
    yield Handshake("4.2.1", "no version", {"Sec-WebSocket-Version": None}, UPGRADE)
    for version in ("0", "7", "8", "12", "14", "255", "130"):
        report = {"sec-websocket-version": "13"}
        yield Handshake("4.4", f"version {version}", {"Sec-WebSocket-Version": version}, UPGRADE, report)
    for version in ("", "013", "+13", "13.0", "13, 8", "thirteen"):
        yield Handshake("4.1", f"version {version!r}", {"Sec-WebSocket-Version": version}, UPGRADE)
    yield Handshake("11.3.5", "two versions", {}, UPGRADE, more=b"Sec-WebSocket-Version: 8\r\n\r\n")
    yield Handshake("4.2.1", "no Upgrade", {"Upgrade": None}, UPGRADE, {"upgrade": "websocket"})
    yield Handshake("4.2.1", "another Upgrade", {"Upgrade": "h2c"}, UPGRADE, {"upgrade": "websocket"})
    yield Handshake("4.2.1", "no Connection", {"Connection": None}, UPGRADE, {"upgrade": "websocket"})
    yield Handshake("4.2.1", "Connection without Upgrade", {"Connection": "keep-alive"}, UPGRADE)
    yield Handshake("4.2.1", "no Host", {"Host": None}, BAD)
    for method in ("POST", "PUT", "OPTIONS", "DELETE"):
        yield Handshake("4.2.1", f"method {method}", {}, METHOD, first=f"{method} {{}} HTTP/1.1")
    yield Handshake("4.1", "HTTP/1.0", {}, UPGRADE, first="GET {} HTTP/1.0")
    yield Handshake("4.1", "HTTP/0.9", {}, 505, first="GET {} HTTP/0.9")
    yield Handshake("4.1", "a body", {"Content-Length": "5"}, UPGRADE, more=b"\r\nhello")
    yield Handshake("4.1", "a body in chunks", {"Transfer-Encoding": "chunked"}, UPGRADE, more=b"\r\n0\r\n\r\n")
    yield Handshake("4.1", "an address with a fragment", {}, BAD, first="GET {}#x HTTP/1.1")


HANDSHAKES: Final = (*taken(), *refused())

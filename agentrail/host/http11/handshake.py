"""Handshakes of WebSockets in HTTP/1.1 (RFC 6455, section 4.2): what is wrong with a request, and the answer to it."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Final

from agentrail.host.http11.request_head import ConnectionHead
from agentrail.host.http11.websocket_protocol import VERSION, accepted_key
from agentrail.host.requests.http_messages import NO_UPGRADE, Headers, words_of

KEY: Final = "sec-websocket-key"
KEY_BYTES: Final = 16

NO_KEY: Final = "its header `Sec-WebSocket-Key` is not one of 16 bytes in base64"
OTHER_VERSION: Final = "its header `Sec-WebSocket-Version` is not `13`"


def upgrade_problem(head: ConnectionHead) -> str:
    """Return why the request opens no WebSocket; no text if it does."""
    if not head.upgrades or "websocket" not in words_of(head.headers, "upgrade"):
        return NO_UPGRADE
    if _all(head, "sec-websocket-version") != [VERSION]:
        return OTHER_VERSION
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

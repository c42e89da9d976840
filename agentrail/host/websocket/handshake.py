"""Reads the handshake of a WebSocket (RFC 6455, section 4.2.1) from a request."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Final

from agentrail.errors import UpgradeWanted
from agentrail.host.http11.http_messages import HttpRequest, words_of
from agentrail.wire.socket_frames import SUBPROTOCOL

KEY_BYTES: Final = 16
VERSION: Final = "13"

NO_UPGRADE: Final = "it is no GET of HTTP/1.1 without a body, with `Connection: upgrade` and `Upgrade: websocket`"
NO_KEY: Final = "its header `Sec-WebSocket-Key` is not one of 16 bytes in base64"
OTHER_VERSION: Final = "its header `Sec-WebSocket-Version` is not `13`"


def handshake_head(request: HttpRequest) -> bytes:
    """Return the head of a handshake with nothing else in it than *request* says of the WebSocket.

    Raise `UpgradeWanted` if the request is no handshake.
    """
    if not request.upgradable or "websocket" not in words_of(request.headers, "upgrade"):
        raise UpgradeWanted(NO_UPGRADE)
    if _all(request, "sec-websocket-version") != [VERSION]:
        raise UpgradeWanted(OTHER_VERSION)
    keys = _all(request, "sec-websocket-key")
    if len(keys) != 1 or not _is_key(keys[0]):
        raise UpgradeWanted(NO_KEY)
    lines = [
        f"GET {request.path} HTTP/1.1",
        "Host: here",
        "Connection: Upgrade",
        "Upgrade: websocket",
        f"Sec-WebSocket-Version: {VERSION}",
        f"Sec-WebSocket-Key: {keys[0]}",
    ]
    if SUBPROTOCOL in words_of(request.headers, "sec-websocket-protocol"):
        lines.append(f"Sec-WebSocket-Protocol: {SUBPROTOCOL}")
    return "\r\n".join([*lines, "", ""]).encode()


def _all(request: HttpRequest, name: str) -> list[str]:
    return [value for key, value in request.headers if key == name]


def _is_key(text: str) -> bool:
    try:
        return len(b64decode(text.encode("latin-1"), validate=True)) == KEY_BYTES
    except binascii.Error:
        return False

"""`SocketHandshake`: reads the request for a WebSocket (RFC 6455, section 4.2.1), and writes the answer to it."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Final

from attrs import frozen

from agentrail.api.socket_frames import SUBPROTOCOL
from agentrail.api.websocket_protocol import VERSION, accepted_key
from agentrail.errors import UpgradeWanted
from agentrail.host.http11.access_log import REQUEST_ID
from agentrail.host.http11.http_messages import HttpRequest, words_of

KEY_BYTES: Final = 16

NO_UPGRADE: Final = "it is no GET of HTTP/1.1 without a body, with `Connection: upgrade` and `Upgrade: websocket`"
NO_KEY: Final = "its header `Sec-WebSocket-Key` is not one of 16 bytes in base64"
OTHER_VERSION: Final = "its header `Sec-WebSocket-Version` is not `13`"


@frozen
class SocketHandshake:
    """The handshake in a request that asks for a WebSocket."""

    key: str
    """Its answer shows that this was read."""
    names_protocol: bool
    """Whether `SUBPROTOCOL` is offered."""

    @classmethod
    def of(cls, request: HttpRequest) -> SocketHandshake:
        """Return the handshake in *request*; raise `UpgradeWanted` if the request has none."""
        if not request.upgradable or "websocket" not in words_of(request.headers, "upgrade"):
            raise UpgradeWanted(NO_UPGRADE)
        if _all(request, "sec-websocket-version") != [VERSION]:
            raise UpgradeWanted(OTHER_VERSION)
        keys = _all(request, "sec-websocket-key")
        if len(keys) != 1 or not _is_key(keys[0]):
            raise UpgradeWanted(NO_KEY)
        return cls(keys[0], SUBPROTOCOL in words_of(request.headers, "sec-websocket-protocol"))

    def answer(self, request_id: str) -> bytes:
        """Return the answer to the request of that id: what follows it are frames."""
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {accepted_key(self.key)}",
            *([f"Sec-WebSocket-Protocol: {SUBPROTOCOL}"] if self.names_protocol else []),
            f"{REQUEST_ID}: {request_id}",
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii")


def _all(request: HttpRequest, name: str) -> list[str]:
    return [value for key, value in request.headers if key == name]


def _is_key(text: str) -> bool:
    try:
        return len(b64decode(text.encode("latin-1"), validate=True)) == KEY_BYTES
    except binascii.Error:
        return False

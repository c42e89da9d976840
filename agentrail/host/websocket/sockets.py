"""`Sockets`: carries out the call that opens a WebSocket, and ends all that are open when the host ends.

Reads the handshake of a WebSocket (RFC 6455, section 4.2.1) from a request.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Final

import trio

from agentrail.api.body_parsing import read_query
from agentrail.api.socket_frames import SUBPROTOCOL
from agentrail.errors import HostClosing, UpgradeWanted
from agentrail.host.authentication.request_places import take_place
from agentrail.host.http11.http_messages import HttpRequest, HttpResponse, Upgrade, words_of
from agentrail.host.operations.call_request import CallRequest
from agentrail.host.websocket.socket_connection import SocketConnection
from agentrail.host.websocket.socket_user import SocketParts
from agentrail.host.websocket.web_socket import SocketStream

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


class Sockets:
    """The WebSockets of a host."""

    def __init__(self, parts: SocketParts) -> None:
        self._parts = parts
        self._open: set[SocketConnection] = set()
        parts.drain.when_over.append(self._end)

    def _end(self) -> None:
        """Close each WebSocket as soon as none of its calls is under way."""
        for socket in tuple(self._open):
            socket.drain()

    async def open(self, exchange: CallRequest) -> HttpResponse:
        """Open a WebSocket, if the request is its handshake; a key that comes with it has to be valid."""
        read_query(exchange.call, exchange.request.query)
        head = handshake_head(exchange.request)
        if self._parts.drain.has_begun:
            raise HostClosing
        connection = SocketConnection(self._parts, exchange.request)
        if connection.user.has_key:
            who = await connection.user.identity()
            self._parts.rates.take(who.tenant)
            take_place(exchange.request, who)

        async def take_over(stream: trio.abc.Stream, received: bytes) -> int:
            wire = SocketStream(stream, head, received, self._parts.limits, self._parts.closing)
            self._open.add(connection)
            try:
                await connection.serve(wire)
            finally:
                self._open.remove(connection)
            return wire.sent

        return HttpResponse(exchange.call.status, (), Upgrade(take_over))

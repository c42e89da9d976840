"""`Sockets`: carries out the call that opens a WebSocket, and ends all that are open when the host ends."""

from __future__ import annotations

import trio

from agentrail.api.body_parsing import read_query
from agentrail.errors import HostClosing
from agentrail.host.authentication.request_places import take_place
from agentrail.host.http11.http_messages import HttpResponse, Upgrade
from agentrail.host.operations.call_request import CallRequest
from agentrail.host.websocket.handshake import SocketHandshake
from agentrail.host.websocket.socket_connection import SocketConnection
from agentrail.host.websocket.socket_user import SocketParts
from agentrail.host.websocket.web_socket import WebSocket


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

    async def open(self, request: CallRequest) -> HttpResponse:
        """Open a WebSocket, if the request is its handshake; a key that comes with it has to be valid."""
        read_query(request.call, request.http.query)
        handshake = SocketHandshake.of(request.http)
        if self._parts.drain.has_begun:
            raise HostClosing
        connection = SocketConnection(self._parts, request.http)
        if connection.user.has_key:
            who = await connection.user.identity()
            self._parts.rates.take(who.tenant)
            take_place(request.http, who)

        async def take_over(stream: trio.abc.Stream, received: bytes) -> int:
            socket = WebSocket(stream, received, self._parts.limits, self._parts.closing)
            self._open.add(connection)
            try:
                await connection.serve(socket, handshake.answer(request.http.note.id))
            finally:
                self._open.remove(connection)
            return socket.sent

        return HttpResponse(request.call.status, (), Upgrade(take_over))

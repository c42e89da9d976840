"""`Sockets`: carries out the call that opens a WebSocket, and ends all that are open when the host ends."""

from __future__ import annotations

from typing import Final

from agentrail.api.body_parsing import read_query
from agentrail.api.operation_table import CALLS
from agentrail.api.public_ids import user_in_ids
from agentrail.api.socket_frames import SUBPROTOCOL, USER
from agentrail.errors import UsageError
from agentrail.host.authentication.request_places import take_place
from agentrail.host.requests.http_messages import Headers, HttpRequest, HttpResponse, Upgrade, words_of
from agentrail.host.requests.message_socket import MessageSocket
from agentrail.host.websocket.socket_connection import SocketConnection
from agentrail.host.websocket.socket_user import SocketParts

SOCKET: Final = CALLS["socket"]


class Sockets:
    """The WebSockets of a host."""

    def __init__(self, parts: SocketParts) -> None:
        self._parts = parts
        self._open: set[SocketConnection] = set()
        parts.operations.drain.when_over.append(self._end)

    def _end(self) -> None:
        """Close each WebSocket as soon as none of its calls is under way."""
        for socket in tuple(self._open):
            socket.drain()

    async def open(self, request: HttpRequest) -> HttpResponse:
        """Open a WebSocket, if the request is its handshake; a key that comes with it has to be valid."""
        read_query(SOCKET, request.query)
        if request.upgrade_problem:
            raise UsageError("upgrade-wanted", request.upgrade_problem)
        self._parts.operations.check_open()
        connection = SocketConnection(self._parts, request)
        headers: Headers = ()
        if connection.user.has_key:
            who = await connection.user.identity()
            self._parts.operations.count(who)
            take_place(request, who)
            headers = ((USER, user_in_ids(who.tenant, who.user)),)

        async def converse(socket: MessageSocket) -> None:
            self._open.add(connection)
            try:
                await connection.serve(socket)
            finally:
                self._open.remove(connection)

        speaks = SUBPROTOCOL in words_of(request.headers, "sec-websocket-protocol")
        return HttpResponse(SOCKET.status, headers, Upgrade(converse, SUBPROTOCOL if speaks else None))

"""`Sockets`: carries out the call that opens a WebSocket, and ends all that are open when the host ends."""

from __future__ import annotations

from agentrail.api.body_parsing import read_query
from agentrail.api.public_ids import user_in_ids
from agentrail.api.socket_frames import SUBPROTOCOL, USER
from agentrail.errors import HostClosing, UsageError
from agentrail.host.authentication.request_places import take_place
from agentrail.host.operations.call_request import CallRequest
from agentrail.host.requests.http_messages import Headers, HttpResponse, Upgrade, words_of
from agentrail.host.requests.message_socket import MessageSocket
from agentrail.host.websocket.socket_connection import SocketConnection
from agentrail.host.websocket.socket_user import SocketParts


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
        if request.http.upgrade_problem:
            raise UsageError("upgrade-wanted", request.http.upgrade_problem)
        if self._parts.drain.has_begun:
            raise HostClosing
        connection = SocketConnection(self._parts, request.http)
        headers: Headers = ()
        if connection.user.has_key:
            who = await connection.user.identity()
            self._parts.rates.take(who.tenant)
            take_place(request.http, who)
            headers = ((USER, user_in_ids(who.tenant, who.user)),)

        async def converse(socket: MessageSocket) -> None:
            self._open.add(connection)
            try:
                await connection.serve(socket)
            finally:
                self._open.remove(connection)

        speaks = SUBPROTOCOL in words_of(request.http.headers, "sec-websocket-protocol")
        return HttpResponse(request.call.status, headers, Upgrade(converse, SUBPROTOCOL if speaks else None))

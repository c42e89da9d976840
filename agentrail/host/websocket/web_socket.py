"""`WebSocket`: messages on a stream, by trio-websocket; no other module of the host imports it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from agentrail.host.http11.inbound.received import PIECE
from agentrail.host.websocket.socket_stream import SocketStream
from agentrail.wire.socket_frames import SUBPROTOCOL


class SocketClosed(Exception):  # noqa: N818 - it is no failure of ours
    """The WebSocket is closed, by either side, or the connection is broken."""


class WebSocket:
    """An open WebSocket, the side of the server."""

    def __init__(self, connection: WebSocketConnection, stream: SocketStream) -> None:
        self._connection = connection
        self._stream = stream

    async def receive(self) -> str | bytes:
        """Return the next message; raise `SocketClosed` if none comes any more."""
        try:
            return await self._connection.get_message()
        except ConnectionClosed as closed:
            raise SocketClosed from closed

    async def send(self, message: bytes) -> None:
        """Send a text; raise `SocketClosed` if that is not possible any more."""
        try:
            await self._connection.send_message(message.decode())
        except ConnectionClosed as closed:
            raise SocketClosed from closed

    async def ping(self) -> None:
        """Return when the client has answered a ping; raise `SocketClosed` if it cannot."""
        try:
            await self._connection.ping()
        except ConnectionClosed as closed:
            raise SocketClosed from closed

    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket, and wait until the client has done so; no-op if it is closed."""
        broken = self._stream.broken
        if self._connection.closed is None:
            await self._connection.aclose(code, reason)
        elif broken is not None:
            # For trio-websocket, what comes ends before the frame that breaks a rule.
            # tests/host/rfc6455/test_host_frames.py
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._stream.say_goodbye(broken.code, broken.reason)


@asynccontextmanager
async def accepted(stream: SocketStream, most: int) -> AsyncGenerator[WebSocket, None]:
    """Answer the handshake that *stream* begins with; a message may have *most* bytes."""
    async with trio.open_nursery() as nursery:  # noqa: TID251 - its reader ends with the WebSocket
        request = await wrap_server_stream(nursery, stream, max_message_size=most, receive_buffer_size=PIECE)
        chosen = SUBPROTOCOL if SUBPROTOCOL in request.proposed_subprotocols else None
        yield WebSocket(await request.accept(subprotocol=chosen), stream)
        nursery.cancel_scope.cancel()

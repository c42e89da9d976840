"""`WebSocket`: messages on a stream, by trio-websocket; no other module of the host imports it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from agentrail.host.http11.inbound.received import PIECE
from agentrail.host.http11.request_note import REQUEST_ID
from agentrail.host.websocket.socket_stream import SocketStream, text_frame
from agentrail.wire.socket_frames import SUBPROTOCOL


class SocketClosed(Exception):  # noqa: N818 - it is no failure of ours
    """The WebSocket is closed, by either side, or the connection is broken."""


class WebSocket:
    """An open WebSocket, the side of the server."""

    def __init__(self, connection: WebSocketConnection, stream: SocketStream) -> None:
        self._connection = connection
        self._stream = stream
        self._begun = 0  # so many texts are with the stream, as `send_now` could not send all of them

    async def receive(self) -> str | bytes:
        """Return the next message; raise `SocketClosed` if none comes any more."""
        try:
            return await self._connection.get_message()
        except ConnectionClosed as closed:
            raise SocketClosed from closed

    def send_now(self, messages: Sequence[bytes]) -> bool:
        """Send texts in one write, if the system takes all now; return whether it did.

        Otherwise, `send` them before any others.
        """
        if self._connection.closed is not None:
            return False
        is_sent = self._stream.send_now(b"".join(map(text_frame, messages)))
        self._begun = 0 if is_sent else len(messages)
        return is_sent

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send texts in one write; raise `SocketClosed` if that is not possible any more."""
        if self._connection.closed is not None:
            raise SocketClosed
        begun = min(self._begun, len(messages))
        self._begun -= begun
        try:
            await self._stream.send_all(b"".join(map(text_frame, messages[begun:])))
        except trio.BrokenResourceError as broken:
            raise SocketClosed from broken

    async def ping(self) -> None:
        """Return when the client has answered a ping; raise `SocketClosed` if it cannot."""
        try:
            await self._connection.ping()
        except ConnectionClosed as closed:
            raise SocketClosed from closed

    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket, and wait until the client has done so; no-op if it is closed."""
        broken = self._stream.broken
        if self._connection.closed is not None:
            if broken is None:
                return
            # For trio-websocket, what comes ends before the frame that breaks a rule.
            # tests/host/rfc6455/test_host_frames.py
            code, reason = broken.code, broken.reason
        # trio-websocket is not told, as it fails at a ping that comes then: it cannot answer after its own close.
        # tests/host/websocket/test_closing.py::test_a_ping_after_the_close_of_the_host_does_no_harm
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, SocketClosed):
            await self._stream.say_goodbye(code, reason)
            while True:
                await self.receive()


@asynccontextmanager
async def accepted(stream: SocketStream, most: int, request_id: str) -> AsyncGenerator[WebSocket, None]:
    """Answer the handshake that *stream* begins with, the request *request_id*; a message may have *most* bytes."""
    async with trio.open_nursery() as nursery:  # noqa: TID251 - its reader ends with the WebSocket
        request = await wrap_server_stream(nursery, stream, max_message_size=most, receive_buffer_size=PIECE)
        chosen = SUBPROTOCOL if SUBPROTOCOL in request.proposed_subprotocols else None
        named = [(REQUEST_ID.encode(), request_id.encode())]
        yield WebSocket(await request.accept(subprotocol=chosen, extra_headers=named), stream)
        nursery.cancel_scope.cancel()

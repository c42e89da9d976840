"""`AsgiSocket`: a WebSocket that an ASGI server carries. The server answers pings, and sends its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from agentrail.api.limits import HostLimits
from agentrail.host.asgi.asgi_scope import AsgiMessage, ReceiveMessage, SendMessage
from agentrail.host.requests.message_socket import MessageSocket, SocketClosed

TOO_BIG: Final = 1009
TOO_LONG: Final = "the message is too long"


class AsgiSocket(MessageSocket):
    """Messages of an open WebSocket, as events of ASGI."""

    def __init__(self, receive: ReceiveMessage, send: SendMessage, accept: AsgiMessage, limits: HostLimits) -> None:
        self._receive = receive
        self._send = send
        self._accept = accept
        """The event that opens the WebSocket."""
        self._limits = limits
        self._most = limits.body_bytes + limits.header_bytes
        """The most bytes of a message from the client."""
        self._sent = 0
        self._is_closed = False

    @property
    def sent(self) -> int:
        """How many bytes of messages were sent."""
        return self._sent

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Answer the handshake. The server reads; a message is taken from it when one is wanted."""
        with suppress(SocketClosed):  # the next `receive` says so
            await self._put(self._accept)
        yield

    async def receive(self) -> str | bytes:
        """Return the next message; raise `SocketClosed` if none comes any more."""
        if self._is_closed:
            raise SocketClosed
        event = await self._receive()
        text, data = event.get("text"), event.get("bytes")
        if event["type"] == "websocket.receive" and isinstance(message := data if text is None else text, str | bytes):
            if len(message) <= self._most and len(_bytes(message)) <= self._most:
                return message
            await self._put({"type": "websocket.close", "code": TOO_BIG, "reason": TOO_LONG})
        self._is_closed = True
        raise SocketClosed

    def send_now(self, messages: Sequence[bytes]) -> bool:  # noqa: ARG002 - none of them
        """Send nothing, and return false: an ASGI server takes an event only from a task that may wait."""
        return False

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send texts; raise `SocketClosed` if that is not possible any more."""
        for message in messages:
            await self._put({"type": "websocket.send", "text": message.decode()})
            self._sent += len(message)

    async def ping(self) -> None:
        """Return at once: the server sends pings, and ends a WebSocket whose client answers none."""
        await trio.lowlevel.checkpoint()
        if self._is_closed:
            raise SocketClosed

    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket; no-op if it is closed. The server waits for the client's part of it."""
        with suppress(SocketClosed):
            await self._put({"type": "websocket.close", "code": code, "reason": reason})
        self._is_closed = True

    async def _put(self, event: AsgiMessage) -> None:
        """Send an event; raise `SocketClosed` if the WebSocket is closed, or its client takes nothing for too long."""
        if self._is_closed:
            raise SocketClosed
        with trio.move_on_after(self._limits.write_seconds) as scope:
            try:
                await self._send(event)
            except OSError as error:  # by the specification, a server may say so that the client has gone
                self._is_closed = True
                raise SocketClosed from error
        if scope.cancelled_caught:
            self._is_closed = True
            raise SocketClosed


def _bytes(message: str | bytes) -> bytes:
    return message.encode(errors="surrogatepass") if isinstance(message, str) else message

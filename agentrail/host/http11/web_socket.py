"""`WebSocket`: messages of an open WebSocket, the side of the host."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

import trio

from agentrail.api.limits import HostLimits
from agentrail.host.http11.frame_writer import FrameWriter
from agentrail.host.http11.receive_buffer import PIECE
from agentrail.host.http11.websocket_protocol import (
    PING,
    PONG,
    TEXT,
    Closed,
    MessageReader,
    Ping,
    Pong,
    Received,
    close_frame,
    frame,
)
from agentrail.host.requests.message_socket import MessageSocket, SocketClosed
from agentrail.runtime.shared.admission import Gate


class WebSocket(MessageSocket):
    """A WebSocket on a stream, which the caller closes."""

    def __init__(
        self, stream: trio.abc.Stream, received: bytes, answer: bytes, limits: HostLimits, closing: Gate
    ) -> None:
        self._stream = stream
        self._received = received  # bytes that came before the handshake was answered
        self._answer = answer  # to the handshake
        self._reader = MessageReader(limits.body_bytes + limits.header_bytes)
        self._writer = FrameWriter(stream, limits.write_seconds, closing)
        self._message: str | bytes | None = None  # the one that is read in advance
        self._moved = trio.lowlevel.ParkingLot()  # woken when a message has come, and when it is taken
        self._has_ended = False  # the reader's task
        self._is_closed = False
        self._awaited = b""  # the content of the last ping
        self._ponged = trio.Event()
        self._begun = 0  # number of texts that `send_now` has left to the writer: `send` must not send them twice

    @property
    def sent(self) -> int:
        """How many bytes were sent."""
        return self._writer.sent

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Send the answer to the handshake, and read what the client sends until the `async with` is left."""
        async with trio.open_nursery() as nursery:  # noqa: TID251 - its reader ends with the WebSocket
            nursery.start_soon(self._read)
            yield
            nursery.cancel_scope.cancel()

    async def _read(self) -> None:
        """Body of the reader's task: it reads one message in advance, and answers pings and a close."""
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._writer.send_all(self._answer)
                data = self._received
                while await self._take_all(self._reader.read(data)):
                    data = bytes(await self._stream.receive_some(PIECE))
                    if not data:
                        return
        finally:
            self._has_ended = self._is_closed = True
            self._moved.unpark_all()
            self._ponged.set()

    async def _take_all(self, received: Sequence[Received]) -> bool:
        """Handle the parsed messages, pings and closes; return whether more may follow."""
        for item in received:
            await self._take(item)
        return not self._is_closed and self._reader.broken is None

    async def _take(self, received: Received) -> None:
        match received:
            case str() | bytes():
                while self._message is not None:
                    await self._moved.park()
                self._message = received
                self._moved.unpark_all()
            case Ping(content):
                await self._writer.send_all(frame(PONG, content))
            case Pong(content):
                if content == self._awaited:
                    self._ponged.set()
            case Closed(code, reason):
                self._is_closed = True
                await self._writer.send_all(close_frame(code, reason))

    async def receive(self) -> str | bytes:
        """Return the next message; raise `SocketClosed` if none comes any more."""
        await trio.lowlevel.checkpoint()
        while self._message is None:
            if self._has_ended:
                raise SocketClosed
            await self._moved.park()
        message, self._message = self._message, None
        self._moved.unpark_all()
        return message

    def send_now(self, messages: Sequence[bytes]) -> bool:
        """Send texts in one write, if the system takes all of them now; return whether it did.

        Otherwise, `send` them before any others.
        """
        if self._is_closed:
            return False
        is_sent = self._writer.send_now(_texts(messages))
        self._begun = 0 if is_sent else len(messages)
        return is_sent

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send texts in one write; raise `SocketClosed` if that is not possible any more."""
        begun = min(self._begun, len(messages))
        self._begun -= begun
        await self._send(_texts(messages[begun:]))

    async def ping(self) -> None:
        """Return when the client has answered a ping; raise `SocketClosed` if it cannot."""
        self._awaited, self._ponged = secrets.token_bytes(4), trio.Event()
        await self._send(frame(PING, self._awaited))
        await self._ponged.wait()
        if self._is_closed:
            raise SocketClosed

    async def _send(self, frames: bytes) -> None:
        if self._is_closed:
            raise SocketClosed
        try:
            await self._writer.send_all(frames)
        except trio.BrokenResourceError as broken:
            raise SocketClosed from broken

    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket, and wait until the client has done so; no-op if it is closed."""
        broken = self._reader.broken
        if broken is not None:
            code, reason = broken.code, broken.reason
        elif self._is_closed:
            return
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, SocketClosed):
            await self._writer.say_goodbye(code, reason)
            while True:
                await self.receive()


def _texts(messages: Sequence[bytes]) -> bytes:
    return b"".join([frame(TEXT, message) for message in messages])

"""`WebSocket`: messages of an open WebSocket, the side of the host.

`FrameWriter`: sends the frames of a WebSocket. What is sent has a deadline.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from agentrail.api.limits import HostLimits
from agentrail.api.socket_frames import SLOW_READER, TRY_LATER
from agentrail.host.http11.inbound import PIECE
from agentrail.host.http11.response_writer import send_at_once
from agentrail.host.http11.websocket_protocol import (
    NORMAL,
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
from agentrail.host.requests.http_messages import MessageSocket, SocketClosed
from agentrail.runtime.shared.admission import Gate

GOODBYE: Final = close_frame(NORMAL, "")[:1]
"""First byte of a frame that closes a WebSocket."""

CLOSINGS: Final = 2
"""How many clients that are too slow begin to be closed per pass of the scheduler."""

LAST_WORDS: Final = 0.1
"""Seconds that the system has to take the goodbye to a client that is too slow."""


class FrameWriter:
    """The sending side of a WebSocket, after its handshake.

    A client that takes nothing for *seconds* is disconnected; the close frame says why, if it reads again.
    """

    def __init__(self, stream: trio.abc.Stream, seconds: float, closing: Gate) -> None:
        self._stream = stream
        self._closing = closing
        self._seconds = seconds
        self._turn = trio.StrictFIFOLock()  # held while sending: pongs and closes are sent by other tasks than messages
        self._unsent = b""
        """What is left of frames that `send_now` could not send."""
        self._midway = False
        self.said_goodbye = False
        """Whether a frame that closes the WebSocket was sent."""
        self.sent = 0
        """How many bytes were sent."""

    def send_now(self, frames: bytes) -> bool:
        """Send frames, if the system takes them now; return whether it did.

        Otherwise `send_all` sends the rest, before anything else; no other frame may be given here until then.
        """
        if self.said_goodbye:
            return True
        sent_bytes = 0 if self._midway or self._unsent else send_at_once(self._stream, frames)
        self.sent += sent_bytes
        self._unsent += frames[sent_bytes:]
        return sent_bytes == len(frames)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send the rest of earlier frames, then *data*, which may be empty.

        Raise `BrokenResourceError` if the peer takes nothing for too long, and ever after.
        """
        async with self._turn:
            await self._send(data)

    async def _send(self, frame: bytes | bytearray | memoryview) -> None:
        if self._midway:
            raise trio.BrokenResourceError
        # a frame that waited for the lock while a close frame was sent: none may follow that (RFC 6455, 5.5.1)
        if self.said_goodbye:
            return
        data, self._unsent = self._unsent + frame, b""
        self._midway = True  # until all of the data is sent: after a part of a frame, nothing else may follow
        if isinstance(self._stream, trio.SocketStream):
            await self._send_plain(self._stream.socket, data)
        else:
            await self._send_pieces(data)
        self._midway = False
        self.sent += len(data)
        self.said_goodbye = frame[:1] == GOODBYE

    async def _send_plain(self, below: trio.socket.SocketType, data: bytes | bytearray | memoryview) -> None:
        # No checkpoint if the system takes all at once: acquiring the lock was one.
        rest = memoryview(data)[send_at_once(self._stream, data) :]
        while rest:
            with trio.move_on_after(self._seconds) as scope:
                try:
                    rest = rest[await below.send(rest) :]
                except OSError as error:
                    raise trio.BrokenResourceError from error
            if scope.cancelled_caught:
                await self._turn_to_close()
                await self._say_too_slow(below, rest)
                raise trio.BrokenResourceError

    async def _send_pieces(self, data: bytes | bytearray | memoryview) -> None:
        for start in range(0, len(data), PIECE):
            with trio.move_on_after(self._seconds) as scope:
                await self._stream.send_all(data[start : start + PIECE])
            if scope.cancelled_caught:
                await self._turn_to_close()
                raise trio.BrokenResourceError

    async def _turn_to_close(self) -> None:
        """Wait until this connection may close: many clients may have stopped at once, and each close takes time."""
        turn = trio.Event()
        self._closing.enter(turn.set)
        await turn.wait()

    async def _say_too_slow(self, below: trio.socket.SocketType, rest: memoryview) -> None:
        """Hand the *rest* of a frame and a close frame to the system, which sends them if the client reads again."""
        if sys.platform != "win32" and below.family in {socket.AF_INET, socket.AF_INET6}:
            # Trio limits how much unsent data the system takes; here it is to take as much as it has room for.
            with suppress(OSError):
                below.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 2**31 - 1)
        last = memoryview(bytes(rest) + close_frame(TRY_LATER, SLOW_READER))
        with trio.move_on_after(LAST_WORDS), suppress(OSError):
            while last:
                last = last[await below.send(last) :]
            self.said_goodbye = True

    async def say_goodbye(self, code: int, reason: str) -> None:
        """Send a frame that closes the WebSocket; no-op if one was sent. Raise as `send_all` does."""
        await self.send_all(close_frame(code, reason))


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
        except (trio.BrokenResourceError, trio.ClosedResourceError) as broken:
            raise SocketClosed from broken

    def say_goodbye_now(self, code: int, reason: str) -> None:
        """Send a frame that closes the WebSocket, if the system takes it at once: the connection is about to end."""
        if self._writer.sent and not self._is_closed:
            self._writer.send_now(close_frame(code, reason))

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

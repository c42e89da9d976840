"""`WebSocket`: messages on a stream, by trio-websocket; no other module of the host imports it.

`SocketStream`: the stream of a connection that has become a WebSocket.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

from agentrail.api.limits import HostLimits
from agentrail.api.socket_frames import SLOW_READER, SUBPROTOCOL, TRY_LATER
from agentrail.host.http11.access_log import REQUEST_ID
from agentrail.host.http11.receive_buffer import PIECE
from agentrail.host.http11.sending import sent_at_once
from agentrail.host.websocket.frame_checks import MOST_CONTROL, BrokenRule, StrictFrames
from agentrail.runtime.shared.admission import Gate

GOODBYE: Final = 0x88
"""First byte of a frame that closes a WebSocket: the last one of its message, and its opcode is 8."""

WHOLE_TEXT: Final = 0x81
"""First byte of a frame that is a whole message, a text."""

MOST_REASON: Final = 123
"""The most bytes of the reason in such a frame."""

CLOSINGS: Final = 2
"""How many clients that are too slow begin to be closed per pass of the scheduler."""

LAST_WORDS: Final = 0.1
"""Seconds that the system has to take the goodbye to a client that is too slow."""


def _goodbye(code: int, reason: str) -> bytes:
    """Return a frame that closes a WebSocket."""
    words = reason.encode()[:MOST_REASON]
    return struct.pack("!BBH", GOODBYE, len(words) + 2, code) + words


def text_frame(message: bytes) -> bytes:
    """Return a message, which is a text, as one frame."""
    size = len(message)
    if size <= MOST_CONTROL:
        return struct.pack("!BB", WHOLE_TEXT, size) + message
    if size < 1 << 16:
        return struct.pack("!BBH", WHOLE_TEXT, MOST_CONTROL + 1, size) + message
    return struct.pack("!BBQ", WHOLE_TEXT, MOST_CONTROL + 2, size) + message


class SocketStream(trio.abc.Stream):
    """Gives a head, then what was received after it, then what comes; what is sent has a deadline.

    A client that takes nothing for so long is told, and can read that when it reads again.

    Whoever serves the connection closes the stream below it.
    """

    def __init__(
        self, stream: trio.abc.Stream, head: bytes, received: bytes, limits: HostLimits, closing: Gate
    ) -> None:
        self._stream = stream
        self._closing = closing
        self._head = head
        self._frames = StrictFrames(limits.body_bytes + limits.header_bytes)
        self._received = self._frames.read(received)
        self._answered = trio.Event()
        self._seconds = limits.write_seconds
        self._turn = trio.StrictFIFOLock()  # to send: trio-websocket answers pings and closes beside our messages
        self._left = b""
        """What is left of frames that `send_now` could not send."""
        self._midway = False
        self.said_goodbye = False
        """Whether a frame that closes the WebSocket was sent."""
        self.sent = 0
        """How many bytes were sent."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return some bytes; none at the end."""
        if self._head:
            await trio.lowlevel.checkpoint()
            head, self._head = self._head, b""
            return head
        # With the head, trio-websocket would leave what follows it until more comes.
        # tests/host/websocket/test_handshake.py::test_messages_that_come_with_the_handshake_are_read
        await self._answered.wait()
        while not self._received:
            data = b"" if self._frames.broken else bytes(await self._stream.receive_some(max_bytes))
            if not data:
                return b""
            self._received = self._frames.read(data)
        most = PIECE if max_bytes is None else max_bytes
        piece, self._received = self._received[:most], self._received[most:]
        return piece

    def send_now(self, frames: bytes) -> bool:
        """Send frames, if the system takes them now; return whether it did.

        Otherwise `send_all` sends the rest, before anything else; no other frame may be given here until then.
        """
        if self.said_goodbye:
            return True
        sent_bytes = 0 if self._midway or self._left else sent_at_once(self._stream, frames)
        self.sent += sent_bytes
        self._left += frames[sent_bytes:]
        return sent_bytes == len(frames)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send what is left, and frames, or none.

        Raise `BrokenResourceError` if the peer takes nothing for too long, and ever after.
        """
        async with self._turn:
            await self._send(data)

    async def _send(self, frame: bytes | bytearray | memoryview) -> None:
        if self._midway:
            raise trio.BrokenResourceError
        if self.said_goodbye:  # a frame that was made before waited for its turn; none may follow (RFC 6455, 5.5.1)
            return
        self._answered.set()
        data, self._left = self._left + frame, b""
        self._midway = True  # until all is sent: after a part of a frame, nothing may follow
        if isinstance(self._stream, trio.SocketStream):
            await self._send_plain(self._stream.socket, data)
        else:
            await self._send_pieces(data)
        self._midway = False
        self.sent += len(data)
        self.said_goodbye = frame[:1] == bytes([GOODBYE])

    async def _send_plain(self, below: trio.socket.SocketType, data: bytes | bytearray | memoryview) -> None:
        # No checkpoint if all is taken at once: the lock has made one.
        rest = memoryview(data)[sent_at_once(self._stream, data) :]
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
        for at in range(0, len(data), PIECE):
            with trio.move_on_after(self._seconds) as scope:
                await self._stream.send_all(data[at : at + PIECE])
            if scope.cancelled_caught:
                await self._turn_to_close()
                raise trio.BrokenResourceError

    async def _turn_to_close(self) -> None:
        """Wait until it is the turn of this client: many may have stopped at once, and to close each takes time."""
        turn = trio.Event()
        self._closing.enter(turn.set)
        await turn.wait()

    async def _say_too_slow(self, below: trio.socket.SocketType, rest: memoryview) -> None:
        """Leave the *rest* of a frame and a goodbye to the system, which sends them if the client reads again."""
        if below.family != socket.AF_UNIX:
            # Trio has the system take little in advance; now it is to take all that it has room for.
            with suppress(OSError):
                below.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 2**31 - 1)
        last = memoryview(bytes(rest) + _goodbye(TRY_LATER, SLOW_READER))
        with trio.move_on_after(LAST_WORDS), suppress(OSError):
            while last:
                last = last[await below.send(last) :]
            self.said_goodbye = True

    @property
    def broken(self) -> BrokenRule | None:
        """The rule of RFC 6455 that the client has broken; `None` if none."""
        return self._frames.broken

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the stream below takes something."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """No-op: the stream below is closed by whoever serves the connection, after a goodbye."""
        await trio.lowlevel.checkpoint()

    async def say_goodbye(self, code: int, reason: str) -> None:
        """Send a frame that closes the WebSocket; no-op if one was sent. Raise as `send_all` does."""
        await self.send_all(_goodbye(code, reason))


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

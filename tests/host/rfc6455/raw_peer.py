"""A client of WebSocket over a plain socket, which may break each rule."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio
from attrs import field, frozen

from tests.host.rfc6455.raw_frames import CONTROL, Frame, FrameReader, Opcode, frame

KEY: Final = base64.b64encode(b"sixteen bytes ok").decode()
MAGIC: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
SECONDS: Final = 60
"""How long a server may take for what a peer waits for, however busy the machine is."""


def accept_of(key: str) -> str:
    """Return what a server answers to a key."""
    return base64.b64encode(hashlib.sha1(f"{key}{MAGIC}".encode()).digest()).decode()  # noqa: S324 - RFC 6455 wants it


def upgrade(path: str, *headers: str, key: str = KEY) -> bytes:
    """Return a handshake that is right, with further *headers*."""
    lines = (
        f"GET {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        *headers,
        "",
        "",
    )
    return "\r\n".join(lines).encode()


@frozen
class Answer:
    """The head of the answer to a handshake."""

    status: int
    headers: dict[str, str]


def read_head(head: bytes) -> Answer:
    """Return the head of an answer; names of headers in small letters."""
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Answer(int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs})


@frozen
class Heard:
    """What a server has said on one connection, up to its end."""

    texts: list[str] = field(factory=list)
    pings: list[bytes] = field(factory=list)
    pongs: list[bytes] = field(factory=list)
    closes: list[bytes] = field(factory=list)
    """The content of its close frame, if there was one."""

    @property
    def code(self) -> int | None:
        """The code of its close frame; `None` if it has none."""
        result = self.closes[0] if self.closes else b""
        return struct.unpack("!H", result[:2])[0] if result else None

    @property
    def reason(self) -> str:
        """The reason in its close frame."""
        return self.closes[0][2:].decode() if self.closes else ""


class Peer:
    """An open connection, after its handshake."""

    def __init__(self, stream: trio.abc.Stream, answer: Answer, rest: bytes) -> None:
        self.stream = stream
        self.answer = answer
        self.heard = Heard()
        self._reader = FrameReader()
        self._fragments: list[bytes] = []
        self._take(rest)

    async def send(self, *pieces: bytes) -> None:
        """Send bytes; if the server has closed already, nothing is sent."""
        for piece in pieces:
            try:
                await self.stream.send_all(piece)
            except trio.BrokenResourceError:
                return

    async def say(self, text: str) -> None:
        """Send a message."""
        await self.send(frame(Opcode.TEXT, text.encode()))

    async def more(self, within: float = SECONDS) -> bool:
        """Read once; return false at the end of the connection."""
        with trio.fail_after(within):
            try:
                data = bytes(await self.stream.receive_some(65536))
            except trio.BrokenResourceError:
                data = b""
        self._take(data)
        return bool(data)

    async def next_text(self) -> str:
        """Return the next message, and take it away from what was heard."""
        while not self.heard.texts:
            assert await self.more(), f"the server has closed: {self.heard}"
        return self.heard.texts.pop(0)

    async def play(self, pieces: Sequence[bytes], texts: int, pongs: int) -> None:
        """Send bytes, and read until so many messages and pongs have come, or the server closes."""
        await self.send(*pieces)
        while len(self.heard.texts) < texts or len(self.heard.pongs) < pongs:
            if not await self.more():
                return

    async def rest(self) -> Heard:
        """Read up to the end of the connection, and return all that was heard."""
        while await self.more():
            pass
        assert self._reader.rest == 0
        return self.heard

    def _take(self, data: bytes) -> None:
        for item in self._reader.read(data):
            if item.opcode >= CONTROL:
                self._control(item)
                continue
            self._fragments.append(item.payload)
            if item.fin:
                self.heard.texts.append(b"".join(self._fragments).decode())
                self._fragments.clear()

    def _control(self, item: Frame) -> None:
        if item.opcode == Opcode.PING:
            self.heard.pings.append(item.payload)
        elif item.opcode == Opcode.PONG:
            self.heard.pongs.append(item.payload)
        elif item.opcode == Opcode.CLOSE:
            self.heard.closes.append(item.payload)


async def shaken(stream: trio.abc.Stream, handshake: bytes) -> Peer:
    """Send a handshake, and read the head of the answer."""
    await stream.send_all(handshake)
    return await read_answer(stream)


async def read_answer(stream: trio.abc.Stream) -> Peer:
    """Read the head of the answer to a handshake."""
    received = b""
    with trio.fail_after(SECONDS):
        while b"\r\n\r\n" not in received:
            piece = await stream.receive_some(65536)
            assert piece, f"the server has closed: {received!r}"
            received += piece
    head, _, rest = received.partition(b"\r\n\r\n")
    answer = read_head(head)
    return Peer(stream, answer, rest if answer.status == 101 else b"")


@asynccontextmanager
async def connected(port: int, path: str, headers: Sequence[str] = ()) -> AsyncGenerator[Peer]:
    """Connect to a server of loopback; what is sent before the answer could be read is no part of it."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        peer = await shaken(stream, upgrade(path, *headers))
        assert peer.answer.status == 101, peer.answer
        assert peer.answer.headers["sec-websocket-accept"] == accept_of(KEY)
        yield peer

"""A server on the loopback that plays HTTP byte by byte and records what it was asked.

It knows nothing of models: each request is answered by the next `Play`, a list of steps on the raw socket.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias, cast

import trio
from attrs import define, field, frozen

STREAMS = Path(__file__).parent / "streams"


@frozen
class Pause:
    """Nothing is sent for so many seconds."""

    seconds: float


@frozen
class Stall:
    """Nothing more is sent; when the client has gone, *gone* is set."""

    gone: trio.Event = field(factory=trio.Event)


@frozen
class Reset:
    """The connection is reset, not closed in order."""


@frozen
class Mark:
    """Tells whoever waits for it that the steps before have been sent."""

    event: trio.Event


@frozen
class Wait:
    """Nothing is sent until somebody sets the event."""

    event: trio.Event


Step: TypeAlias = bytes | Pause | Stall | Reset | Mark | Wait


@frozen
class Play:
    """What is sent to answer one request, and whether the connection is kept."""

    steps: tuple[Step, ...]
    keep: bool = False


@frozen
class Asked:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        return cast("dict[str, object]", json.loads(self.body))


Answering: TypeAlias = Callable[[Asked], Play]
"""Chooses a play by what was asked."""


@define
class Server:
    """The plays, and what was asked."""

    port: int
    plays: list[Play | Answering]
    asked: list[Asked] = field(factory=list)
    opened: int = 0
    """Connections that were made."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, stream: trio.SocketStream) -> None:
        self.opened += 1
        async with stream:
            buffer = bytearray()
            while (asked := await _read(stream, buffer)) is not None:
                self.asked.append(asked)
                chosen = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
                play = chosen if isinstance(chosen, Play) else chosen(asked)
                try:
                    await _perform(stream, play)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return
                if not play.keep:
                    return


async def _read(stream: trio.SocketStream, buffer: bytearray) -> Asked | None:
    while b"\r\n\r\n" not in buffer:
        if not await _more(stream, buffer):
            return None
    head, _, _ = bytes(buffer).partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    whole = len(head) + 4 + int(headers.get("content-length", "0"))
    while len(buffer) < whole:
        if not await _more(stream, buffer):
            return None
    body = bytes(buffer[len(head) + 4 : whole])
    del buffer[:whole]
    method, target, _ = first.split(" ")
    return Asked(method, target, headers, body)


async def _more(stream: trio.SocketStream, buffer: bytearray) -> bool:
    try:
        piece = await stream.receive_some()
    except trio.BrokenResourceError:
        return False
    buffer += piece
    return bool(piece)


async def _perform(stream: trio.SocketStream, play: Play) -> None:
    for step in play.steps:
        match step:
            case bytes():
                await stream.send_all(step)
            case Pause(seconds=seconds):
                await trio.sleep(seconds)
            case Stall(gone=gone):
                await _until_gone(stream, gone)
            case Mark(event=event):
                event.set()
            case Wait(event=event):
                await event.wait()
            case Reset():
                linger = (1).to_bytes(4, "little") + bytes(4)
                stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, linger)
                return


async def _until_gone(stream: trio.SocketStream, gone: trio.Event) -> None:
    try:
        while await stream.receive_some():
            pass
    finally:
        gone.set()
    raise trio.BrokenResourceError


async def serve(*plays: Play | Answering, task_status: trio.TaskStatus[Server]) -> None:
    """Serve *plays* in order, one per request; the last one answers all further requests."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    server = Server(port, list(plays))
    task_status.started(server)
    await trio.serve_listeners(server.serve, listeners)


@asynccontextmanager
async def serving(*plays: Play | Answering) -> AsyncIterator[Server]:
    """Serve *plays* as long as the block takes."""
    async with trio.open_nursery() as nursery:
        server: Server = await nursery.start(serve, *plays)
        yield server
        nursery.cancel_scope.cancel()


# Plays


def head(status: int = 200, *headers: str, kind: str = "text/event-stream") -> bytes:
    """Return the head of an answer, of which nothing is said about its length."""
    lines = (f"HTTP/1.1 {status} X", f"content-type: {kind}", *headers)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunked(pieces: Iterable[bytes]) -> list[bytes]:
    """Return *pieces* as chunks of HTTP, with the last one that is empty."""
    return [*(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces), b"0\r\n\r\n"]


def streaming(events: bytes, *, size: int | None = None, keep: bool = True) -> Play:
    """Answer with *events*, in chunks of *size* bytes."""
    step = size or len(events)
    pieces = [events[at : at + step] for at in range(0, len(events), step)]
    return Play((head(200, "transfer-encoding: chunked"), *chunked(pieces)), keep)


def refusing(status: int, body: bytes, *headers: str, kind: str = "application/json") -> Play:
    """Answer with an error."""
    return Play((head(status, f"content-length: {len(body)}", *headers, kind=kind), body), keep=True)


def steps(*given: Step) -> Play:
    """Answer with the head of a stream and then these steps; the connection is closed behind them."""
    return Play((head(), *given))


def recorded(name: str) -> bytes:
    """Return the stream in `streams/`, without the lines at its beginning that name the source."""
    lines = (STREAMS / name).read_bytes().split(b"\n")
    return b"\n".join(line for line in lines if not line.startswith(b"#"))


def events(*data: object, named: bool = True) -> bytes:
    """Return JSON objects as events, named by their types."""
    return b"".join(_event(item, named=named) for item in data)


def _event(item: object, *, named: bool) -> bytes:
    name = cast("dict[str, object]", item).get("type") if named else None
    first = f"event: {name}\n" if name else ""
    return f"{first}data: {json.dumps(item)}\n\n".encode()

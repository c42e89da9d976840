"""A host that plays the protocol of `WS /v1/ws`, on the package `websockets`, which nobody here wrote; and a relay."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import Final, TypeAlias

import trio
from attrs import define, field
from websockets.asyncio.server import Server, ServerConnection, serve, unix_serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from agentrail.api.problems import MEDIA_TYPE, problem_of
from agentrail.errors import HostNotReached, NotAuthenticated
from agentrail.remote.transport.host_connection import HostConnection, open_line

KEY: Final = "ar_1_the_key_that_nobody_sees"

Message: TypeAlias = dict[str, object]
Play: TypeAlias = Callable[[Message], Sequence[Message | int | str]]
"""What the host answers to a message: messages, as text too, and codes with which it closes."""


@define
class PlayingHost:
    """A host that answers as *play* says, and remembers what came."""

    play: Play
    key: str = KEY
    subprotocol: str | None = "agentrail.v1"
    received: list[Message] = field(factory=list)
    closes: list[int | None] = field(factory=list)
    port: int = 0

    async def handle(self, connection: ServerConnection) -> None:
        """Serve one connection."""
        try:
            async for text in connection:
                message: Message = json.loads(text)
                self.received.append(message)
                for reply in self.play(message):
                    if isinstance(reply, int):
                        await connection.close(reply, "played")
                        return
                    await connection.send(reply if isinstance(reply, str) else json.dumps(reply))
        except ConnectionClosed:
            pass
        finally:
            await connection.wait_closed()
            self.closes.append(connection.close_code)

    def screen(self, connection: ServerConnection, request: Request) -> Response | None:
        """Refuse a handshake with another key."""
        if request.headers.get("authorization") == f"Bearer {self.key}":
            return None
        content = problem_of(NotAuthenticated("the key is not valid"), "open a WebSocket").content
        headers = Headers([("content-type", MEDIA_TYPE), ("content-length", str(len(content)))])
        return Response(HTTPStatus.UNAUTHORIZED, "Unauthorized", headers, content)

    async def serve(
        self, started: Callable[[], None], ended: asyncio.Event, tls: ssl.SSLContext | None, path: str
    ) -> None:
        """Serve until *ended*."""
        offered = [Subprotocol(self.subprotocol)] if self.subprotocol else None
        server: Server
        if path:
            server = await unix_serve(self.handle, path, subprotocols=offered, process_request=self.screen)
        else:
            server = await serve(
                self.handle, "127.0.0.1", self.port, subprotocols=offered, process_request=self.screen, ssl=tls
            )
            self.port = next(iter(server.sockets)).getsockname()[1]
        started()
        await ended.wait()
        server.close()
        await server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def playing(self, tls: ssl.SSLContext | None = None, path: str = "") -> Iterator[None]:
        """Serve in a thread."""
        loop, ended, started = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
        work = self.serve(started.set, ended, tls, path)
        thread = threading.Thread(target=loop.run_until_complete, args=(work,))
        thread.start()
        try:
            assert started.wait(30)
            yield
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join()
            loop.close()


@define
class Relay:
    """Passes bytes on to a host, and cuts each connection after as many as *budget* says."""

    target: int
    budget: Callable[[], int]
    port: int = 0
    cuts: int = 0
    connections: int = 0
    open: set[trio.CancelScope] = field(factory=set)
    changed: trio.Event = field(factory=trio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def visited(self, key: str, talk: Callable[[HostConnection], Awaitable[None]]) -> None:
        """Talk over a line through the relay, however often its first handshake is cut."""
        while True:
            try:
                async with open_line(self.url, key) as line:
                    return await talk(line)
            except HostNotReached:
                continue

    async def pass_on(self, client: trio.SocketStream) -> None:
        """Pass on what comes from a client and for it, until the budget is spent."""
        self.connections += 1
        bytes_left = [self.budget()]
        try:
            host = await trio.open_tcp_stream("127.0.0.1", self.target)
        except OSError:
            await trio.aclose_forcefully(client)
            return
        async with client, host, trio.open_nursery() as nursery:
            self.open.add(nursery.cancel_scope)
            self.changed.set()
            nursery.start_soon(self._pump, client, host, bytes_left, nursery.cancel_scope)
            nursery.start_soon(self._pump, host, client, bytes_left, nursery.cancel_scope)
        self.open.discard(nursery.cancel_scope)

    async def all_open(self, count: int) -> None:
        """Wait until so many connections are open."""
        while len(self.open) < count:
            self.changed = trio.Event()
            await self.changed.wait()

    def cut_all(self) -> None:
        """Cut all connections that are open."""
        for scope in tuple(self.open):
            scope.cancel()
        self.open.clear()

    async def _pump(
        self, source: trio.SocketStream, sink: trio.SocketStream, bytes_left: list[int], scope: trio.CancelScope
    ) -> None:
        try:
            while data := await source.receive_some(65536):
                passed, bytes_left[0] = bytes(data[: bytes_left[0]]), bytes_left[0] - len(data)
                if passed:
                    await sink.send_all(passed)
                if bytes_left[0] <= 0:
                    self.cuts += 1
                    if bytes_left[0] % 2:  # a reset, and not an orderly end
                        sink.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()

    @asynccontextmanager
    async def relaying(self) -> AsyncGenerator[None, None]:
        """Pass on until the end of the `async with`."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self.pass_on, listeners)
            yield
            nursery.cancel_scope.cancel()

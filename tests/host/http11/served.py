"""A live server on loopback, and a peer that sends bytes and reads until the server closes."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio
from attrs import field, frozen

from agentrail.api.limits import DEFAULTS
from agentrail.host import HostLimits
from agentrail.host.http11.http_server import HttpServer
from agentrail.host.http11.listening import ListenAddress, Tcp
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse

NOW_MS: Final = 1_795_344_000_123
TODAY: Final = "Sun, 22 Nov 2026 10:40:00 GMT"

STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3})[^\r\n]*\r\n")


@frozen
class Served:
    """A server that listens, and the requests that its handler got."""

    server: HttpServer
    port: int
    seen: list[HttpRequest] = field(factory=list)

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def talk(self, sent: bytes, *, ends: bool = True) -> bytes:
        """Send, end the sending side, and return all that comes until the server closes."""
        async with await self.connect() as stream:
            try:
                await stream.send_all(sent)
                if ends:
                    await stream.send_eof()
            except trio.BrokenResourceError:
                pass
            return await everything(stream)


async def everything(stream: trio.abc.ReceiveStream) -> bytes:
    received = bytearray()
    with trio.fail_after(100):
        try:
            while piece := await stream.receive_some(65536):
                received += piece
        except trio.BrokenResourceError:
            pass
    return bytes(received)


async def echo(request: HttpRequest) -> HttpResponse:
    """Answer with what was understood."""
    facts = {
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "body": (await request.body.read()).decode("latin-1"),
    }
    return HttpResponse(200, (("content-type", "application/json"),), json.dumps(facts).encode())


@asynccontextmanager
async def served(
    handler: Handler = echo, limits: HostLimits = DEFAULTS, address: ListenAddress | None = None
) -> AsyncGenerator[Served]:
    seen: list[HttpRequest] = []

    async def handled(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return await handler(request)

    server = HttpServer(handled, lambda: NOW_MS, limits)
    async with trio.open_nursery() as nursery:
        (listening,) = await nursery.start(server.serve, [address or Tcp()])
        yield Served(server, listening.port, seen)
        nursery.cancel_scope.cancel()


def statuses(answers: bytes) -> list[int]:
    """Return the statuses of all answers, in order; none of our contents looks like a status line."""
    return [int(match[1]) for match in STATUS.finditer(answers)]


def request(first: str = "GET / HTTP/1.1", *headers: str, host: str | None = "h") -> bytes:
    lines = [first, *([f"Host: {host}"] if host is not None else []), *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")

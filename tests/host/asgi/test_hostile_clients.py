"""Clients that do harm, by way of ASGI servers: what they cost is bounded, and ends when they are gone."""

from __future__ import annotations

import socket
import struct
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

import pytest
import trio

from agentrail import SessionSpec
from agentrail.host import ApiKeys, AsgiApp, Host, HostLimits, Profile
from agentrail.testing import ScriptedModel, say
from tests.host.asgi.servers import SERVERS
from tests.host.asgi.test_on_servers import client_of
from tests.host.hosted import KEYS, LINES
from tests.host.rfc6455.raw_peer import KEY

ON_EACH = pytest.mark.parametrize("server", list(SERVERS))

LIMITS: Final = HostLimits(body_bytes=10_000, write_seconds=0.5, drain_seconds=0.5)
CROWD: Final = 12
BODY_SIZE: Final = 100_000_000
PIECE: Final = b"x" * 65_536
MOST_HELD: Final = 8_000_000
"""The most bytes that a huge body may take, those in the queues of the server included."""

AUTHORIZED: Final = f"Host: 127.0.0.1\r\nAuthorization: Bearer {KEYS['ann']}\r\nContent-Type: application/json\r\n"
HANDSHAKE: Final = (
    f"GET /v1/ws HTTP/1.1\r\n{AUTHORIZED}Connection: upgrade\r\nUpgrade: websocket\r\n"
    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Protocol: agentrail.v1\r\n\r\n"
).encode()
HALF_BODY: Final = f'POST /v1/chat HTTP/1.1\r\n{AUTHORIZED}Content-Length: 1000\r\n\r\n{{"mess'.encode()
HALF_FRAME: Final = b"\x81\xfe\x01\x00mask half"


@asynccontextmanager
async def served(server: str) -> AsyncGenerator[tuple[AsgiApp, str]]:
    """Serve a host; afterwards, it and its server must end soon, and have nothing left of any client."""
    model = ScriptedModel([say(chunks=["so much text in each of them " * 80] * 200)], repeat_last=True)
    app = Host([Profile("desk", SessionSpec(model=model))], authenticator=ApiKeys(lines=LINES), limits=LIMITS).asgi()
    with trio.fail_after(60):
        async with SERVERS[server](app) as url:
            yield app, url
            async with client_of(url) as client:
                assert (await client.get("/healthz")).status_code == 200
            await until(lambda: requests(app) == 0)


async def until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while not is_so():  # noqa: ASYNC110 - in the host
            await trio.sleep(0.02)


def requests(app: AsgiApp) -> int:
    """Return how many requests are under way; none before the app is open."""
    words = repr(app).split()
    return int(words[2]) if "with" in words else 0


async def connect(url: str, *, small: bool = False) -> trio.SocketStream:
    """Connect to a server; with *small*, the system keeps little for the client."""
    stream = trio.socket.socket()
    if small:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await stream.connect(("127.0.0.1", int(url.rpartition(":")[2])))
    return trio.SocketStream(stream)


async def leave(stream: trio.SocketStream, number: int) -> None:
    """Close the connection of the client with that *number*; each second one resets it."""
    if number % 2:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await trio.aclose_forcefully(stream)


async def crowd(client: Callable[[int], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        for number in range(CROWD):
            nursery.start_soon(client, number)


@pytest.mark.long
@ON_EACH
@pytest.mark.parametrize("length", [f"Content-Length: {BODY_SIZE}", "Transfer-Encoding: chunked"])
async def test_a_huge_body_is_refused_and_not_kept(server: str, length: str) -> None:
    piece = PIECE if "Length" in length else b"%x\r\n%s\r\n" % (len(PIECE), PIECE)
    sent = 0
    async with served(server) as (_, url), await connect(url) as stream, trio.open_nursery() as nursery:

        async def send() -> None:
            nonlocal sent
            await stream.send_all(f"POST /v1/chat HTTP/1.1\r\n{AUTHORIZED}{length}\r\n\r\n".encode())
            with suppress(trio.BrokenResourceError):  # the server closes the connection
                while sent < BODY_SIZE:
                    await stream.send_all(piece)
                    sent += len(PIECE)

        tracemalloc.start()
        try:
            nursery.start_soon(send)
            answer = await stream.receive_some()
            with suppress(trio.BrokenResourceError):
                while await stream.receive_some():
                    pass
            assert tracemalloc.get_traced_memory()[1] < MOST_HELD
        finally:
            tracemalloc.stop()
    assert answer.startswith(b"HTTP/1.1 413")
    assert sent < BODY_SIZE


@ON_EACH
async def test_clients_that_leave_in_mid_body_leave_nothing(server: str) -> None:
    async with served(server) as (app, url):

        async def client_task(number: int) -> None:
            async with await connect(url) as stream:
                await stream.send_all(HALF_BODY)
                await until(lambda: requests(app) > 0)
                await leave(stream, number)

        await crowd(client_task)


@ON_EACH
@pytest.mark.parametrize("sent", [HANDSHAKE[:150], HANDSHAKE, HALF_FRAME], ids=["half", "whole", "half a frame"])
async def test_clients_that_leave_in_a_handshake_leave_nothing(server: str, sent: bytes) -> None:
    async with served(server) as (_, url):

        async def client_task(number: int) -> None:
            async with await connect(url) as stream:
                if sent == HALF_FRAME:
                    await stream.send_all(HANDSHAKE)
                    assert (await stream.receive_some()).startswith(b"HTTP/1.1 101")
                await stream.send_all(sent)
                await leave(stream, number)

        await crowd(client_task)


@pytest.mark.long
@pytest.mark.parametrize("server", [name for name in SERVERS if name != "hypercorn-trio"])
async def test_clients_that_stop_reading_are_cut(server: str) -> None:
    """hypercorn on Trio shields what it writes."""
    async with served(server) as (app, url), client_of(url) as client, AsyncExitStack() as stack:
        await client.post("/v1/sessions", json={"session": "trip"})
        for _ in range(CROWD):
            stream = await stack.enter_async_context(await connect(url, small=True))
            await stream.send_all(f"GET /v1/sessions/trip/events HTTP/1.1\r\n{AUTHORIZED}\r\n".encode())
        await until(lambda: requests(app) == CROWD)
        with trio.fail_after(20):
            while requests(app):
                await client.post("/v1/chat", json={"message": "go", "session": "trip"})

"""A server that is told to end: whoever has connected before is answered, whenever the request comes."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack, suppress
from pathlib import Path

import trio
import trio.testing
import trustme

from agentrail.host import HostLimits
from agentrail.host.http11.http_server import HttpConnection, HttpServer
from agentrail.host.http11.listening import AT_ONCE, Certificate, Tcp, UnixSocket, inherited
from agentrail.host.requests.http_messages import HttpRequest, HttpResponse
from tests.host.http11.served import NOW_MS, Served, everything, request, served, statuses
from tests.patience import PATIENCE

WAITING = 8 * AT_ONCE
ROOM = HostLimits(connections_per_address=1000)


async def hello(_: HttpRequest) -> HttpResponse:
    return HttpResponse(200)


async def _accepted(server: Served, count: int) -> None:
    with trio.fail_after(PATIENCE):
        while len(server.server) < count:
            await trio.testing.wait_all_tasks_blocked()


async def _closed(port: int) -> None:
    """Wait until nobody listens at the port any more."""
    with trio.fail_after(PATIENCE), suppress(OSError):
        while True:
            await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
    await trio.testing.wait_all_tasks_blocked()


async def test_a_first_request_that_comes_in_the_drain_is_answered() -> None:
    async with served(hello) as server, await server.connect() as client, trio.open_nursery() as nursery:
        await _accepted(server, 1)
        nursery.start_soon(server.server.drain, 20)
        await _closed(server.port)
        await client.send_all(request())
        answer = await everything(client)
    assert statuses(answer) == [200]
    assert b"\r\nconnection: close\r\n" in answer


async def test_connections_that_nobody_has_accepted_yet_are_answered() -> None:
    async with served(hello, ROOM) as server, trio.open_nursery() as nursery:
        with ExitStack() as stack:
            address = ("127.0.0.1", server.port)
            clients = [stack.enter_context(socket.create_connection(address)) for _ in range(WAITING)]
            nursery.start_soon(server.server.drain, 20)
            await _closed(server.port)
            for client in clients:  # all at once: each has `SILENT` seconds for it
                client.sendall(request())
            for client in clients:
                client.setblocking(False)
                stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
                assert statuses(await everything(stream)) == [200]
    assert len(server.seen) == WAITING


async def test_at_a_unix_socket_they_are_answered_too(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with served(hello, address=UnixSocket(path)) as server, trio.open_nursery() as nursery:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            nursery.start_soon(server.server.drain, 20)
            await _accepted(server, 1)
            client.sendall(request())
            client.setblocking(False)
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
            assert statuses(await everything(stream)) == [200]


async def test_a_client_that_has_not_begun_tls_is_answered(tmp_path: Path) -> None:
    authority = trustme.CA()
    pem = tmp_path / "own.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(pem)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    tcp = Tcp(tls=Certificate(pem))
    async with served(hello, address=tcp) as server, await server.connect() as plain, trio.open_nursery() as nursery:
        await _accepted(server, 1)
        nursery.start_soon(server.server.drain, 20)
        await _closed(server.port)
        client = trio.SSLStream(plain, trusting, server_hostname="localhost", https_compatible=True)
        await client.send_all(request())
        assert statuses(await everything(client)) == [200]


async def test_at_an_inherited_socket_a_request_that_is_under_way_is_answered() -> None:
    released = trio.Event()

    async def wait(_: HttpRequest) -> HttpResponse:
        await released.wait()
        return HttpResponse(200)

    address = inherited(socket.create_server(("127.0.0.1", 0)).detach())
    async with served(wait, address=address) as server, await server.connect() as client:
        await client.send_all(request())
        await _accepted(server, 1)
        server.server.begin_drain()  # as at SIGTERM; sessions are parked now, for as long as a call needs
        await trio.testing.wait_all_tasks_blocked()
        released.set()
        await server.server.drain(20)
        assert statuses(await everything(client)) == [200]


async def test_a_further_request_that_has_arrived_is_answered_and_then_the_connection_ends() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    ours.setblocking(False)
    server = HttpServer(hello, lambda: NOW_MS)
    connection = HttpConnection(trio.SocketStream(trio.socket.from_stdlib_socket(ours)), "p", server)
    client = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
    async with client, trio.open_nursery() as nursery:

        async def serve() -> None:
            await connection.serve()
            ours.close()

        nursery.start_soon(serve)
        await client.send_all(request())
        assert statuses(await client.receive_some(65536)) == [200]
        await trio.testing.wait_all_tasks_blocked()
        server.begin_drain()
        theirs.send(request())
        connection.drain()
        answer = await everything(client)
    assert statuses(answer) == [200]
    assert b"\r\nconnection: close\r\n" in answer


async def test_a_connection_that_rests_after_an_answer_is_closed_at_once(mock_clock: object) -> None:
    del mock_clock  # time stands still
    async with served(hello) as server, await server.connect() as client:
        await client.send_all(request())
        assert statuses(await client.receive_some(65536)) == [200]
        await server.server.drain(20)
        assert await everything(client) == b""

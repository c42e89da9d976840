"""Requests that come in pieces, wherever they are cut, and what a connection counts for while it ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from agentrail.host import HostLimits
from agentrail.host.http11.http_server import HttpConnection, HttpServer
from agentrail.host.http11.listening import UnixSocket
from agentrail.host.requests.http_messages import HttpRequest, HttpResponse
from tests.host.http11.served import NOW_MS, echo, everything, request, served, statuses

CHUNKED = request("POST / HTTP/1.1", "Transfer-Encoding: chunked")


async def answered(*pieces: bytes) -> Sequence[int]:
    """Return the statuses of the answers to what comes in *pieces*, each of which is read before the next one."""
    incoming, outgoing = trio.testing.MemoryReceiveStream(), trio.testing.MemorySendStream()
    connection = HttpConnection(trio.StapledStream(outgoing, incoming), "p", HttpServer(echo, lambda: NOW_MS))
    async with trio.open_nursery() as nursery:
        connection.slot.enter(None, connection)
        nursery.start_soon(connection.serve)
        for piece in pieces:
            incoming.put_data(piece)
            await trio.testing.wait_all_tasks_blocked()
        incoming.put_eof()
    return statuses(bytes(outgoing.get_data_nowait()))


@pytest.mark.parametrize("missing", range(1, 6))
async def test_the_end_of_a_head_is_found_wherever_it_is_cut(missing: int) -> None:
    head = request()
    assert await answered(head[:-missing], head[-missing:]) == [200]
    assert await answered(head[:-missing], *[bytes([byte]) for byte in head[-missing:]]) == [200]


@pytest.mark.parametrize("end", [b"XX", b"\rX", b"X\n", b"0\r\n\r\n"])
async def test_a_chunk_that_is_longer_than_its_size_says_is_refused(end: bytes) -> None:
    assert await answered(CHUNKED + b"3\r\nabc\r\n0\r\n\r\n") == [200]
    assert await answered(CHUNKED + b"3\r\nabc" + end + b"0\r\n\r\n") == [400]


async def test_the_peer_of_a_unix_socket_that_is_not_admitted_is_closed_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "host"

    async def asked() -> Sequence[int]:
        async with await trio.open_unix_socket(str(path)) as stream:
            await stream.send_all(request("GET / HTTP/1.1", "Connection: close"))
            return statuses(await everything(stream))

    async with served(address=UnixSocket(path)) as one:
        assert await asked() == [200]
        one.server.admits = lambda _: False
        assert await asked() == []
        assert len(one.seen) == 1


async def test_a_connection_that_only_waits_for_its_peer_to_close_counts_for_no_caller() -> None:
    async def unread(request: HttpRequest) -> HttpResponse:
        request.slot.take("acme", "ann", "key")
        return HttpResponse(200)

    async with served(unread, HostLimits(connections=2)) as one:
        body = request("POST / HTTP/1.1", "Content-Length: 10")
        async with await one.connect() as first, await one.connect() as second:
            for stream in (first, second):
                await stream.send_all(body)  # the server ends the connection: the body does not come
                assert statuses(await everything(stream)) == [200]

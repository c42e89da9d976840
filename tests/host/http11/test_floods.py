"""Many clients that connect at the same time: each is served or told to come again, and none holds up all others."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import pytest
import trio
import trio.testing

from agentrail.host import HostLimits
from agentrail.host.http11.http_server import BEGUN_AT_ONCE, HttpConnection, HttpServer
from agentrail.host.http11.listening import AT_ONCE
from agentrail.host.requests.connection_slots import MAX_HEARD, SILENT, ConnectionSlot, ConnectionState
from agentrail.host.requests.http_messages import HttpRequest, HttpResponse
from agentrail.host.requests.refusals import CLOSED_FOR_ANOTHER, HttpRefusal
from tests.host.http11.served import NOW_MS, everything, request, served, statuses

MANY: Final = 2 * AT_ONCE + 1
ROOM: Final = HostLimits(connections=1000, connections_per_address=1000)


class Passes(trio.abc.Instrument):
    """Counts the passes of the event loop, and what happens in each."""

    def __init__(self) -> None:
        self.number = 0
        self.accepted = Counter[int]()
        self.begun = Counter[int]()

    def before_io_wait(self, timeout: float) -> None:
        self.number += 1

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        if task.name.endswith("._run_handler"):
            self.accepted[self.number] += 1

    async def answer(self, _: HttpRequest) -> HttpResponse:
        self.begun[self.number] += 1
        return HttpResponse(200)


@contextmanager
def flood(port: int, number: int, sent: bytes) -> Generator[list[socket.socket]]:
    """Connect so many clients, each of which has *sent* something, before the event loop goes on."""
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(number)]
    try:
        for client in clients:
            client.sendall(sent)
            client.setblocking(False)
        yield clients
    finally:
        for client in clients:
            client.close()


async def heard(client: socket.socket) -> bytes:
    """Return what a client gets until the server closes; a reset raises `ConnectionResetError`."""
    got = bytearray()
    while True:
        await trio.lowlevel.wait_readable(client)
        piece = client.recv(65536)
        if not piece:
            return bytes(got)
        got += piece


async def test_in_one_pass_of_the_loop_so_many_are_accepted_and_begin_and_no_more() -> None:
    passes = Passes()
    async with served(passes.answer, ROOM) as server:
        trio.lowlevel.add_instrument(passes)
        with flood(server.port, MANY, request("GET / HTTP/1.1", "Connection: close")) as clients:
            for client in clients:
                assert (await heard(client)).startswith(b"HTTP/1.1 200 ")
        trio.lowlevel.remove_instrument(passes)
    assert [count for _, count in sorted(passes.accepted.items())] == [AT_ONCE, AT_ONCE, 1]
    assert sum(passes.begun.values()) == MANY
    assert max(passes.begun.values()) == BEGUN_AT_ONCE


@pytest.mark.long
async def test_each_client_of_a_flood_is_served_or_told_to_come_again(
    mock_clock: trio.testing.MockClock,  # time stands still
) -> None:
    most, more = 4, MAX_HEARD
    limits = HostLimits(connections=most, connections_per_address=most + more)
    begun, go_on = 0, trio.Event()

    async def answer(http_request: HttpRequest) -> HttpResponse:
        nonlocal begun
        http_request.slot.settle()
        begun += 1
        await go_on.wait()
        return HttpResponse(200)

    counts = Counter[tuple[int, bool]]()
    async with served(answer, limits) as server, trio.open_nursery() as nursery:
        with flood(server.port, most + more, request("GET / HTTP/1.1", "Connection: close")) as clients:

            async def hear(client: socket.socket) -> None:
                answer = await heard(client)
                (status,) = statuses(answer)
                counts[status, b"\r\nretry-after: 1\r\n" in answer] += 1
                if counts[503, True] == more:
                    go_on.set()

            for stream in clients:
                nursery.start_soon(hear, stream)
            await go_on.wait()
            while sum(counts.values()) < len(clients):
                await trio.testing.wait_all_tasks_blocked()
            mock_clock.rate = 10  # for the end of the connections
    assert counts == {(200, False): most, (503, True): more}
    assert begun == most


@pytest.mark.long
async def test_health_is_answered_while_all_other_connections_begin_to_speak(
    mock_clock: trio.testing.MockClock,  # time stands still
) -> None:
    most = 10 * BEGUN_AT_ONCE
    async with served(hello, HostLimits(connections=most)) as server:
        with flood(server.port, most + MAX_HEARD, b"") as clients:
            await trio.testing.wait_all_tasks_blocked()
            for crowd in (clients[:most], clients[most:]):  # those beyond the limits stand in line behind the others
                for client in crowd:
                    client.sendall(b"GET / HTTP/1.1\r\n")
                for _ in range(3):
                    await trio.lowlevel.checkpoint()
            with flood(server.port, 1, request("GET /healthz HTTP/1.1", "Connection: close")) as (watcher,):
                assert statuses(await heard(watcher)) == [200]
        mock_clock.rate = 10  # for the end of the connections


async def hello(_: HttpRequest) -> HttpResponse:
    return HttpResponse(200)


async def settled(http_request: HttpRequest) -> HttpResponse:
    http_request.slot.settle()
    return HttpResponse(200)


async def test_a_request_that_comes_as_its_connection_is_closed_for_another_is_told_to_come_again() -> None:
    incoming, outgoing = trio.testing.MemoryReceiveStream(), trio.testing.MemorySendStream()
    connection = HttpConnection(trio.StapledStream(outgoing, incoming), "p", HttpServer(hello, lambda: NOW_MS))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        connection.slot.enter(None, connection)
        incoming.put_data(request())
        await trio.testing.wait_all_tasks_blocked()
        incoming.put_data(request())
        connection.slot.close(HttpRefusal(CLOSED_FOR_ANOTHER))
        incoming.put_eof()
    answers = bytes(outgoing.get_data_nowait())
    assert statuses(answers) == [200, 503]
    assert answers.count(b"\r\nretry-after: 1\r\n") == 1


async def test_a_client_that_has_just_connected_has_time_to_send_its_request(
    mock_clock: trio.testing.MockClock,  # time stands still
) -> None:
    async with served(settled, HostLimits(connections=1)) as server:
        first = await server.connect()
        while not len(server.server):
            await trio.testing.wait_all_tasks_blocked()
        others = [await server.connect() for _ in range(3)]
        while len(server.server) < 4:
            await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(SILENT)
        assert [statuses(await everything(other)) for other in others] == [[503]] * 3
        await first.send_all(request("GET / HTTP/1.1", "Connection: close"))
        assert statuses(await everything(first)) == [200]
        await first.aclose()
        second = await server.connect()
        while not len(server.server):
            await trio.testing.wait_all_tasks_blocked()
        assert statuses(await server.talk(request())) == [200]  # a whole request counts more than silence
        assert await everything(second) == b""
        for stream in (second, *others):
            await stream.aclose()
        mock_clock.rate = 10  # for the end of the connections


class ReadSoon:
    """A connection on which something has come that it reads in the next pass."""

    def __init__(self) -> None:
        self.looks = 0
        self.has_ended = False

    def has_unread(self) -> bool:
        self.looks += 1
        return self.looks == 1

    def end(self, _: HttpRefusal) -> None:
        self.has_ended = True


async def test_who_comes_when_all_are_about_to_read_is_heard_a_pass_later() -> None:
    async with served(settled, HostLimits(connections=1)) as one:
        crowd = [ReadSoon() for _ in range(1 + MAX_HEARD)]
        states = [ConnectionState.ASKING, *[ConnectionState.SILENT] * MAX_HEARD]
        for connection, state in zip(crowd, states, strict=True):
            assert ConnectionSlot(one.server.slots, state).enter(None, connection)
        assert statuses(await one.talk(request())) == [503]
        assert [connection.has_ended for connection in crowd].count(True) == 1

"""Many clients that connect at the same time: each is served or told to come again, and none holds up all others."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import trio

from agentrail.host.http11.accepting import AT_ONCE
from agentrail.host.http11.http_messages import HttpRequest, HttpResponse
from agentrail.host.http11.http_server import BEGUN_AT_ONCE
from agentrail.wire.limits import HostLimits
from tests.host.http11.served import request, served

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
        for each in clients:
            each.sendall(sent)
            each.setblocking(False)
        yield clients
    finally:
        for each in clients:
            each.close()


async def everything(client: socket.socket) -> bytes:
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
    async with served(passes.answer, ROOM) as one:
        trio.lowlevel.add_instrument(passes)
        with flood(one.port, MANY, request("GET / HTTP/1.1", "Connection: close")) as clients:
            for each in clients:
                assert (await everything(each)).startswith(b"HTTP/1.1 200 ")
        trio.lowlevel.remove_instrument(passes)
    assert [count for _, count in sorted(passes.accepted.items())] == [AT_ONCE, AT_ONCE, 1]
    assert sum(passes.begun.values()) == MANY
    assert max(passes.begun.values()) == BEGUN_AT_ONCE

"""Hosts on one journal are replaced, join and leave under load: others go on at once with what they let go of."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import trio

from agentrail import RemoteSupervisor, connect
from agentrail.journals import PostgresJournal
from tests.adapters.journals.postgres.server import needs_postgres
from tests.free_port import free_port
from tests.host.cluster.test_killed import LONGEST, serving
from tests.host.commanded import Served
from tests.host.deployed.client import Client
from tests.host.deployed.crowd import Deployment, checked, come_to_rest, deployment, ended
from tests.host.deployed.line_client import LineClient
from tests.host.hosted import KEYS
from tests.patience import within
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

LONG_LEASE = 60.0
"""With it, hosts look every 20 seconds at what is free."""

AT_ONCE = within(1.0)


async def until_at(supervisor: RemoteSupervisor, count: int) -> None:
    """Wait until *count* sessions run."""
    while len((await supervisor.tree()).children) < count:  # noqa: ASYNC110 - no event tells of it
        await trio.sleep(0.02)


@needs_postgres
async def test_work_under_way_goes_on_at_once_at_another_host(tmp_path: Path, url: str) -> None:
    ports = free_port(), free_port()
    times: list[float] = []
    async with (
        deployment(tmp_path / "desk") as hosts,
        serving(hosts.folder, url, ports[0], LONG_LEASE) as leaving,
        serving(hosts.folder, url, ports[1], LONG_LEASE),
        connect(f"http://127.0.0.1:{ports[0]}", KEYS["ann"], patience=60) as first,
        connect(f"http://127.0.0.1:{ports[1]}", KEYS["boss"], patience=60) as boss,
        connect(f"http://127.0.0.1:{ports[1]}", KEYS["ann"], patience=60) as second,
        trio.open_nursery() as nursery,
    ):
        for name in ("seen", "unseen"):
            await (await first.spawn("slow", name)).prompt("go")

        async def view() -> None:
            async with second.session("seen").subscribe(since=0) as events:
                async for _ in events:
                    times.append(time.monotonic())  # noqa: PERF401 - it is read meanwhile

        nursery.start_soon(view)
        while len(times) < 20:  # noqa: ASYNC110 - no event tells of it
            await trio.sleep(0.02)
        told_at = time.monotonic()
        ended_at = await ended(leaving)
        with trio.fail_after(AT_ONCE):
            await until_at(boss, 2)
            while times[-1] < ended_at:  # noqa: ASYNC110 - no event tells of it
                await trio.sleep(0.02)
        gap = max(later - earlier for earlier, later in pairwise(times))
        print(f"\nended after {ended_at - told_at:.2f} s, longest gap {gap:.2f} s")  # noqa: T201
        assert gap < AT_ONCE
        nursery.cancel_scope.cancel()


class Balancer:
    """A port for clients, from which connections go to one of the hosts that serve."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.port = 0
        self._chance = Random("balancer")

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[Balancer]:
        """Listen until the `async with` is left."""
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.serve_listeners, self._join, [listener]))
            yield self
            nursery.cancel_scope.cancel()

    async def _join(self, client: trio.SocketStream) -> None:
        try:
            host = await trio.open_tcp_stream("127.0.0.1", self._chance.choice(self.ports))
        except OSError:
            return
        async with host, trio.open_nursery() as nursery:
            for source, to in ((client, host), (host, client)):
                nursery.start_soon(_copy, source, to, nursery.cancel_scope.cancel)


async def _copy(source: trio.SocketStream, to: trio.SocketStream, end: Callable[[], None]) -> None:
    try:
        async for piece in source:
            await to.send_all(piece)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    end()


class Fleet:
    """Hosts behind a balancer, which come and go."""

    def __init__(self, hosts: Deployment, url: str, balancer: Balancer, nursery: trio.Nursery) -> None:
        self._one = hosts
        self._url = url
        self._balancer = balancer
        self._nursery = nursery
        self._served: dict[int, Served] = {}

    async def start(self, port: int) -> None:
        """Start a host at *port*, and send clients to it too."""
        await self._nursery.start(self._serve, port)
        self._balancer.ports.append(port)

    async def end(self, port: int) -> None:
        """Send no more clients to the host at *port*, and end it."""
        self._balancer.ports.remove(port)
        await ended(self._served.pop(port))

    async def _serve(self, port: int, *, task_status: trio.TaskStatus[None]) -> None:
        async with serving(self._one.folder, self._url, port) as served:
            self._served[port] = served
            task_status.started()
            await served.process.wait()


async def go_on(clients: list[Client]) -> None:
    """Wait until each client has talked for one turn more."""
    counts = [len(client.acknowledged) for client in clients]
    with trio.fail_after(within(10.0)):
        for client, count in zip(clients, counts, strict=True):
            while len(client.acknowledged) <= count:  # noqa: ASYNC110 - no event tells of it
                await trio.sleep(0.02)


@pytest.mark.skipif(not CAMPAIGN, reason="a minute long: `make campaign` runs it; CI has test_upgraded.py beside it")
@needs_postgres
async def test_all_hosts_are_replaced_and_their_number_changes_without_a_lost_word(tmp_path: Path, url: str) -> None:
    first_port, two, three, four, other = ports = [free_port() for _ in range(5)]
    assert len(set(ports)) == len(ports)
    kinds = (LineClient, Client, LineClient, LineClient)
    async with deployment(tmp_path / "desk") as desk, Balancer().listening() as balancer, trio.open_nursery() as hosts:
        fleet = Fleet(desk, url, balancer, hosts)
        async with trio.open_nursery() as nursery:
            for port in (first_port, two, three):
                nursery.start_soon(fleet.start, port)
        clients = [
            kind(balancer.port, KEYS["ann"], f"s{number}", Random(f"fleet {number}"), LONGEST)
            for number, kind in enumerate(kinds)
        ]
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(client.use)
            await go_on(clients)
            for old, new in ((first_port, first_port), (two, other), (three, three)):
                await fleet.end(old)
                await fleet.start(new)
                await go_on(clients)
            await fleet.start(four)
            await go_on(clients)
            for port in (first_port, other):
                await fleet.end(port)
                await go_on(clients)
            await come_to_rest(clients)
        hosts.cancel_scope.cancel()
    figures = await checked(desk, clients, PostgresJournal(url))
    print(f"\n{dict(figures)}")  # noqa: T201
    assert figures["aborted"] == figures["unknown"] == 0
    assert figures["cuts"] > 0

"""One of two hosts is killed under load: the other has its sessions soon, and what clients were told holds."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio

from agentrail.journals import Journal, MemoryJournal, PostgresJournal
from tests.adapters.journals.postgres.server import needs_postgres
from tests.free_port import free_port
from tests.host.cluster.several import LEASE
from tests.host.commanded import SERVE, Served, commanded
from tests.host.deployed.client import Client
from tests.host.deployed.crowd import Deployment, bytecode_in, checked, come_to_rest, deployment
from tests.host.deployed.line_client import LineClient
from tests.host.hosted import KEYS
from tests.patience import within
from tests.profiles import CAMPAIGN
from tests.recovery.shared import serve

pytestmark = pytest.mark.long

DESK = Path(__file__).with_name("desk.py")
ROUNDS = 4 if CAMPAIGN else 2
"""At every second one, the host comes back before its leases have ended."""
LONGEST = 0.3


@asynccontextmanager
async def serving(folder: Path, journal: str, port: int, lease: float = LEASE) -> AsyncGenerator[Served]:
    """Serve by a process of the cluster; it is killed at the end if it still runs."""
    env = {
        **bytecode_in(folder),
        "JOURNAL": journal,
        "ADDRESS": f"http://127.0.0.1:{port}",
        "LEASE": str(lease),
    }
    async with commanded([*SERVE, str(DESK), "--port", str(port)], folder, env=env) as served:
        yield served


async def kill(served: Served) -> None:
    served.process.kill()
    assert await served.process.wait() == -signal.SIGKILL


async def test_a_host_of_two_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    journal = MemoryJournal()
    async with deployment(tmp_path / "desk") as hosts, trio.open_nursery() as nursery:
        await nursery.start(serve, journal, str(hosts.folder / "journal"))
        await kill_again_and_again(hosts, str(hosts.folder / "journal"), journal)
        nursery.cancel_scope.cancel()


@pytest.mark.campaign
@needs_postgres
async def test_a_host_of_two_on_a_database_is_killed(tmp_path: Path, url: str) -> None:
    async with deployment(tmp_path / "desk") as hosts:
        await kill_again_and_again(hosts, url, PostgresJournal(url))


async def kill_again_and_again(hosts: Deployment, host: str, journal: Journal) -> None:
    """Kill one of two hosts whose *journal* is found at a *host*, and check what is left."""
    chance = Random("two hosts")
    ports = free_port(), free_port()
    async with serving(hosts.folder, host, ports[0]):
        clients: list[Client] = []
        for number in range(ROUNDS):
            clients += await one_round(hosts.folder, host, ports, number, chance)
    figures = await checked(hosts, clients, journal)
    print(f"\n{dict(figures)}")  # noqa: T201
    assert figures["acknowledged"] > ROUNDS
    assert figures["refused"] == 0


async def one_round(folder: Path, host: str, ports: tuple[int, int], number: int, chance: Random) -> list[Client]:
    """Kill the second host while it has sessions of clients of the first; return their clients, at rest."""
    front, holder = ports
    kinds = (Client, LineClient, Client, LineClient)
    names = [f"s{number}-{index}" for index in range(len(kinds))]
    clients = [kind(front, KEYS["ann"], name, chance, LONGEST) for kind, name in zip(kinds, names, strict=True)]
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        served = await stack.enter_async_context(serving(folder, host, holder))
        for name in names:
            await Client(holder, KEYS["ann"], name, chance, LONGEST).open()
        for client in clients:
            nursery.start_soon(client.use)
        for client in clients:
            await client.began()
        await trio.sleep(chance.uniform(0.2, 1.0))
        await kill(served)
        if number % 2:  # it comes back at its address before its leases have ended
            await stack.enter_async_context(serving(folder, host, holder))
        counts = [len(client.acknowledged) for client in clients]
        with trio.fail_after(within(20 * LEASE)):
            for client, count in zip(clients, counts, strict=True):
                while len(client.acknowledged) < count + 2:  # noqa: ASYNC110 - no event tells of it
                    await trio.sleep(0.05)
        await come_to_rest(clients)
    return clients

"""A host is stopped for longer than its lease and goes on, as if no time had passed: its late writes are refused."""

from __future__ import annotations

import signal
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import pytest
import trio

from agentrail.journals import PostgresJournal
from tests.adapters.journals.postgres.server import needs_postgres
from tests.free_port import free_port
from tests.host.cluster.test_killed import serving
from tests.host.deployed.client import Client
from tests.host.deployed.crowd import checked, come_to_rest, deployment
from tests.host.deployed.line_client import LineClient
from tests.host.hosted import KEYS
from tests.patience import within

LEASE = 3.0
"""Seconds: a host that gets no CPU for so long would be taken for the one that is stopped."""

pytestmark = pytest.mark.long

LONGEST = 0.3
SESSIONS = 8


@pytest.mark.campaign
@needs_postgres
async def test_a_host_that_wakes_after_its_lease_writes_nothing(tmp_path: Path, url: str) -> None:
    chance = Random("stopped")
    front, holder = free_port(), free_port()
    async with deployment(tmp_path / "desk") as hosts, trio.open_nursery() as nursery, AsyncExitStack() as stack:
        await stack.enter_async_context(serving(hosts.folder, url, front, LEASE))
        stopped = await stack.enter_async_context(serving(hosts.folder, url, holder, LEASE))
        kinds = (Client, LineClient) * (SESSIONS // 2)
        clients = [kind(front, KEYS["ann"], f"s{n}", chance, LONGEST) for n, kind in enumerate(kinds)]
        for client in clients:
            await Client(holder, KEYS["ann"], client.session, chance, LONGEST).open()
            nursery.start_soon(client.use)
        for client in clients:
            await client.began()
        stopped.process.send_signal(signal.SIGSTOP)
        counts = [len(client.acknowledged) for client in clients]
        with trio.fail_after(within(20 * LEASE)):
            for client, count in zip(clients, counts, strict=True):
                while len(client.acknowledged) <= count:  # noqa: ASYNC110 - no event tells of it
                    await trio.sleep(0.05)
        assert not hosts.calls("fenced")
        stopped.process.send_signal(signal.SIGCONT)
        with trio.fail_after(within(10 * LEASE)):
            while not hosts.calls("fenced"):  # noqa: ASYNC110 - no event tells of it
                await trio.sleep(0.05)
        await come_to_rest(clients)
        figures = await checked(hosts, clients, PostgresJournal(url))
        print(f"\n{dict(figures)}, late writes refused: {len(hosts.calls('fenced'))}")  # noqa: T201

"""Hosts are cut off from the database, from each other and from their clients: what clients were told holds.

`AGENTRAIL_PROFILE=campaign` does so 20 times, and prints the figures with `-s`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from tests.adapters.journals.postgres.server import PostgresServer, folder_of_servers, needs_postgres
from tests.host.cluster.crew import Crew, crew, on_networks
from tests.host.cluster.networks import NETWORKS, Networks, networks
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

PARTITIONS = 20 if CAMPAIGN else 1
SEED = os.environ.get("AGENTRAIL_SEED", "1")
CLIENTS = 6 if CAMPAIGN else 2
HOSTS = 3 if CAMPAIGN else 2
SHORT = 2.0
CUTS = (NETWORKS, ("database",), ("hosts",), ("database", "hosts"))


@contextmanager
def server_on(of: Networks) -> Iterator[PostgresServer]:
    """Run a server that hosts reach on a network of its own."""
    ip = of.address("database")
    with folder_of_servers() as folder:
        server = PostgresServer(folder, f"listen_addresses=127.0.0.1,{ip}")
        server.make()
        with (folder / "data" / "pg_hba.conf").open("a", encoding="utf-8") as file:
            file.write(f"host all all {ip}/24 scram-sha-256\n")
        server.start()
        try:
            yield server
        finally:
            server.kill()


async def cut_some_off(hosts: Crew, of: Networks) -> None:
    """Cut one host after the other off."""
    for number in range(PARTITIONS):
        await trio.sleep(hosts.chance.uniform(0.2, 1.0))
        await hosts.cut_off(hosts.chance.randrange(HOSTS), of, CUTS[number % len(CUTS)])


@pytest.mark.campaign
@needs_postgres
async def test_partitions_lose_and_double_nothing(tmp_path: Path) -> None:
    with networks(HOSTS) as of, server_on(of) as server:
        url = server.url.replace("127.0.0.1", of.address("database"))
        async with crew(tmp_path / "desk", server, on_networks(of), SEED, lease=SHORT, url=url) as hosts:
            hosts.admit(CLIENTS)
            for client in hosts.clients:
                await client.began()
            await cut_some_off(hosts, of)
            await hosts.audit()
    print(hosts.table())  # noqa: T201
    assert hosts.figures["acknowledged"] > PARTITIONS
    if CAMPAIGN:
        assert hosts.figures["late writes refused"] > 0

"""Hosts, the server and their clocks fail at random moments under load: what clients were told holds.

`AGENTRAIL_PROFILE=campaign` kills `AGENTRAIL_KILLS` times (500 if not set), and prints a table with `-s`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from tests.adapters.journals.postgres.server import PostgresServer, needs_postgres
from tests.host.cluster.crew import Crew, Endpoint, crew, on_loopback
from tests.profiles import CAMPAIGN

KILLS = int(os.environ.get("AGENTRAIL_KILLS", "500")) if CAMPAIGN else 4
SEED = os.environ.get("AGENTRAIL_SEED", "1")
CLIENTS = 16 if CAMPAIGN else 2
HOSTS = 6 if CAMPAIGN else 3
MOST_CLAIMS = 5
SERVER_LIVES = (15.0, 45.0) if CAMPAIGN else (1.0, 4.0)
"""Seconds after which the server is killed: on a machine with much to do it takes some to come back."""
SHORT = 2.0
"""Seconds of a lease: a machine with much to do stalls for a second now and then."""

pytestmark = [pytest.mark.long, needs_postgres]


async def trouble_hosts(hosts: Crew, endpoint: Endpoint) -> None:
    """Kill the host at *endpoint* again and again, or stop it for a while."""
    number = 0
    while hosts.kills < KILLS:
        await trio.sleep(hosts.chance.uniform(0.3, 3))
        number += 1
        await (hosts.stop_for_a_while(endpoint) if number % 4 == 2 else hosts.restart(endpoint))


async def trouble_server(hosts: Crew) -> None:
    """Kill the server again and again."""
    while hosts.kills < KILLS:
        await trio.sleep(hosts.chance.uniform(*SERVER_LIVES))
        await hosts.kill_server()


@pytest.mark.campaign
async def test_faults_lose_and_double_nothing(tmp_path: Path, server: PostgresServer, url: str) -> None:
    endpoints = on_loopback(HOSTS, (0.0, 2.0, -2.0))
    async with crew(tmp_path / "desk", server, endpoints, SEED, lease=SHORT, url=url) as hosts:
        hosts.admit(CLIENTS)
        for client in hosts.clients:
            await client.began()
        async with trio.open_nursery() as nursery:
            for endpoint in hosts.endpoints:
                nursery.start_soon(trouble_hosts, hosts, endpoint)
            nursery.start_soon(trouble_server, hosts)
        await hosts.audit()
    print(hosts.table())  # noqa: T201
    assert hosts.kills >= KILLS
    assert hosts.figures["acknowledged"] > 0
    assert "met fenced" not in hosts.figures
    assert hosts.claims_per_second() < MOST_CLAIMS
    if CAMPAIGN:
        assert hosts.figures["late writes refused"] > 0

"""Hosts, the server and their clocks fail at random moments under load: what clients were told holds.

`AGENTRAIL_PROFILE=campaign` kills `AGENTRAIL_KILLS` times (500 if not set), and prints a table with `-s`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from tests.adapters.journals.postgres.server import PostgresServer, needs_postgres
from tests.host.cluster.crew import Crew, Place, crew, on_loopback
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


async def trouble_hosts(one: Crew, place: Place) -> None:
    """Kill the host at *place* again and again, or stop it for a while."""
    number = 0
    while one.kills < KILLS:
        await trio.sleep(one.chance.uniform(0.3, 3))
        number += 1
        await (one.stop_for_a_while(place) if number % 4 == 2 else one.restart(place))


async def trouble_server(one: Crew) -> None:
    """Kill the server again and again."""
    while one.kills < KILLS:
        await trio.sleep(one.chance.uniform(*SERVER_LIVES))
        await one.kill_server()


@pytest.mark.campaign
async def test_faults_lose_and_double_nothing(tmp_path: Path, server: PostgresServer, url: str) -> None:
    places = on_loopback(HOSTS, (0.0, 2.0, -2.0))
    async with crew(tmp_path / "desk", server, places, SEED, lease=SHORT, url=url) as one:
        one.admit(CLIENTS)
        for client in one.clients:
            await client.began()
        async with trio.open_nursery() as nursery:
            for place in one.places:
                nursery.start_soon(trouble_hosts, one, place)
            nursery.start_soon(trouble_server, one)
        await one.audit()
    print(one.table())  # noqa: T201
    assert one.kills >= KILLS
    assert one.figures["acknowledged"] > 0
    assert "met fenced" not in one.figures
    assert one.claims_per_second() < MOST_CLAIMS
    if CAMPAIGN:
        assert one.figures["late writes refused"] > 0

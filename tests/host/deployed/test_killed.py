"""A host that is killed under load: what its clients were told holds, and nothing is done twice.

Half of the clients hear its streams over HTTP, the others use `agentrail.connect`, over WebSockets.

`AGENTRAIL_PROFILE=campaign` kills it `AGENTRAIL_KILLS` times (1,000 if not set), and prints a table with `-s`.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest
import trio

from tests.host.deployed.client import Client
from tests.host.deployed.crowd import checked, come_to_rest, deployment, ended
from tests.host.deployed.line_client import LineClient
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

LIVES = 20
KILLS = int(os.environ.get("AGENTRAIL_KILLS", "1000")) if CAMPAIGN else 40
TOGETHER = 2
CLIENTS = 6
LONGEST = 0.3


async def tale(folder: Path, seed: int, figures: Counter[str]) -> None:
    """Kill a host under load in each of its lives but the last one, and check what is left."""
    chance = Random(seed)
    async with deployment(folder) as hosts:
        clients = hosts.clients(CLIENTS, seed, LONGEST, (Client, LineClient))
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(client.use)
            for _ in range(LIVES):
                await hosts.kill(chance)
                figures["kills"] += 1
            async with hosts.process() as served:
                await come_to_rest(clients)
                await ended(served)
        figures += await checked(hosts, clients)
        figures["cut short"] += len(hosts.calls("began")) - len(hosts.calls("ended"))


@pytest.mark.campaign
async def test_a_host_that_is_killed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    figures = Counter[str]()
    for first in range(0, KILLS // LIVES, TOGETHER):
        async with trio.open_nursery() as nursery:
            for seed in range(first, min(first + TOGETHER, KILLS // LIVES)):
                nursery.start_soon(tale, tmp_path / str(seed), seed, figures)
    print(f"\n{dict(figures)}")  # noqa: T201
    assert (figures["kills"], figures["refused"]) == (KILLS, 0)
    assert figures["acknowledged"] > 0

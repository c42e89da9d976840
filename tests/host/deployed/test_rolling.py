"""Deployments under load: each client goes on by itself, no connection is refused, and no call is cut.

`AGENTRAIL_PROFILE=campaign` has 200 sessions and 10 deployments, and asserts how long clients are without their stream.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import pytest
import trio

from tests.host.deployed.client import Client
from tests.host.deployed.crowd import Deployment, checked, come_to_rest, deployment, ended
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

SESSIONS = 200 if CAMPAIGN else 20
RESTARTS = 10 if CAMPAIGN else 2
LONGEST = 2.0 if CAMPAIGN else 1.0
APART = 3.0 if CAMPAIGN else 1.0
GAP = 3.0
"""Seconds within which 99 of 100 clients have their stream again, without the time for which calls were waited for."""


@pytest.mark.campaign
async def test_deployments_cut_no_call_and_refuse_no_connection(tmp_path: Path) -> None:
    async with deployment(tmp_path / "desk") as hosts:
        clients = hosts.clients(SESSIONS, 1, LONGEST)
        exits: list[float] = []
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(client.use)
            for _ in range(RESTARTS):
                async with hosts.process() as served:
                    await trio.sleep(APART)
                    for client in clients:  # else one that comes late may miss the only process that is left to it
                        await client.began()
                    exits.append(await ended(served))
            async with hosts.process() as served:
                await trio.sleep(APART)
                await come_to_rest(clients)
                await ended(served)
        figures = await checked(hosts, clients)
    assert (figures["unknown"], figures["refused"], figures["aborted"]) == (0, 0, 0), figures
    assert len(hosts.times("ended")) == len(hosts.times("began"))
    assert all(client.cuts for client in clients)
    gaps = sorted(_gaps(hosts, clients, exits))
    p99 = gaps[int(len(gaps) * 0.99)]
    print(f"\n{SESSIONS} sessions, {RESTARTS} deployments: {dict(figures)}; gap p99 {p99:.2f} s")  # noqa: T201
    if CAMPAIGN:
        assert p99 <= GAP


def _gaps(hosts: Deployment, clients: list[Client], exits: list[float]) -> list[float]:
    """Return for how long clients had no stream, counted from the end of the last call that was waited for."""
    calls = hosts.times("ended")
    times: list[float] = []
    for client in clients:
        for cut, back in client.cuts:
            exited = exits[bisect_left(exits, back) - 1]
            last = calls[bisect_left(calls, exited) - 1]
            times.append(back - max(cut, last))
    return times

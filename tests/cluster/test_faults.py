"""Shards, their machines, the hosts in front of them and the server fail under load: what clients were told holds.

`AGENTRAIL_PROFILE=campaign` kills `AGENTRAIL_KILLS` times (150 if not set), and prints a table with `-s`.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import frozen

from agentrail.cluster import end_cluster, ray_actors
from agentrail.cluster.opened_cluster import join_ray
from agentrail.cluster.ray_actors import NoAnswerError, in_thread
from agentrail.cluster.shard_plan import LEASE, ShardAddress, shard_name
from tests.adapters.journals.postgres.server import PostgresServer, needs_postgres
from tests.cluster.raylets import Raylets, needs_ray
from tests.cluster.test_machines import PAUSE, is_alive
from tests.cluster.test_open_cluster import PATIENCE
from tests.host.cluster.crew import Crew, crew, on_loopback
from tests.profiles import CAMPAIGN

pytestmark = [pytest.mark.long, needs_ray, needs_postgres]

DESK = Path(__file__).with_name("faults_desk.py")
KILLS = int(os.environ.get("AGENTRAIL_KILLS", "150")) if CAMPAIGN else 3
SEED = os.environ.get("AGENTRAIL_SEED", "1")
SHARDS = 4 if CAMPAIGN else 2
FRONTS = 2 if CAMPAIGN else 1
CLIENTS = 12 if CAMPAIGN else 2
LOOK_SECONDS = 2.0
MOST_CLAIMS = 5
SETTLED = 0.5
"""Seconds after which nothing is under way any more that a process has sent before it was stopped."""


@frozen
class Trouble:
    """Kills what serves the clients of *hosts* on *machines*, one thing after the other."""

    hosts: Crew
    machines: Raylets

    async def make(self) -> None:
        """Make trouble of all kinds until there was enough."""
        kinds = [self.kill_shard, self.kill_machine, self.leave_machine, self.stop_machine, self.stop_shard]
        weights = [14, 2, 1, 2, 1]
        if not CAMPAIGN:
            await self.kill_shard()
            await self.kill_machine()
            await self.hosts.kill_server()
        while self.hosts.kills < KILLS:
            await trio.sleep(self.hosts.chance.uniform(0.3, 5))
            (kind,) = self.hosts.chance.choices(kinds, weights)
            await kind()

    async def make_in_front(self) -> None:
        """Kill hosts in front of the shards, and the server."""
        while self.hosts.kills < KILLS:
            await trio.sleep(self.hosts.chance.uniform(5, 30))
            if self.hosts.chance.random() < 0.5:
                await self.hosts.restart(self.hosts.chance.choice(self.hosts.endpoints))
            else:
                await self.hosts.kill_server()

    # Shards

    async def kill_shard(self) -> None:
        """Kill the process of a shard."""
        name, shard = await self._any()
        with suppress(ProcessLookupError):  # it has ended meanwhile, as it moves
            await self.hosts.kill_process(shard.process, name, "shards")

    async def stop_shard(self) -> None:
        """Stop a shard for longer than its lease; then it goes on, as if no time had passed."""
        _, shard = await self._any()
        with suppress(ProcessLookupError):  # as above
            os.kill(shard.process, signal.SIGSTOP)
            self.hosts.figures["stopped and continued"] += 1
            try:
                await trio.sleep(LEASE * self.hosts.chance.uniform(1.1, 1.6))
            finally:
                os.kill(shard.process, signal.SIGCONT)

    # Machines

    async def kill_machine(self) -> None:
        """Kill a machine and the shards there, and add one after a while."""
        _, shard = await self._any()
        self._kill_raylet(shard, reap=True)
        await self._add_machine()

    async def leave_machine(self) -> None:
        """Kill a machine whose shard lives on until it knows that another one has its name."""
        name, shard = await self._any()
        self._kill_raylet(shard, reap=False)
        await self._until_ended(name, shard)
        await self._add_machine()

    async def stop_machine(self) -> None:
        """Stop a machine until Ray takes it for dead, and clients hear of its sessions again; then it goes on."""
        name, shard = await self._any()
        sessions = await self.hosts.held_by(name)
        with suppress(ProcessLookupError):  # as above
            os.kill(shard.process, signal.SIGSTOP)
            stopped = time.monotonic()
            try:
                self._kill_raylet(shard, reap=False)
                await self._until_elsewhere(name, shard)
                await self._until_heard(sessions, stopped + SETTLED)
            finally:
                os.kill(shard.process, signal.SIGCONT)
            self.hosts.figures["taken for dead, and continued"] += 1
            await self._until_ended(name, shard)
        await self._add_machine()

    def _kill_raylet(self, shard: ShardAddress, *, reap: bool) -> None:
        self.machines.kill(shard.node, reap=reap)
        self.hosts.figures["kills of raylets"] += 1

    async def _add_machine(self) -> None:
        await trio.sleep(self.hosts.chance.uniform(0, 5))
        self.machines.fill()  # Ray wants the main thread

    async def _until_elsewhere(self, name: str, old: ShardAddress) -> None:
        """Wait until another process is the shard *name*."""
        with trio.fail_after(PATIENCE):
            while (await self._find_shard(name) or old).process == old.process:  # noqa: ASYNC110 - no event tells of it
                await trio.sleep(PAUSE)

    async def _until_ended(self, name: str, old: ShardAddress) -> None:
        """Wait until the process that was the shard *name* has ended."""
        await self._until_elsewhere(name, old)
        with trio.fail_after(PATIENCE):
            while is_alive(old.process):  # noqa: ASYNC110 - as above
                await trio.sleep(PAUSE)

    async def _until_heard(self, sessions: frozenset[str], since: float) -> None:
        """Wait until each client of *sessions* has heard something after *since*."""
        clients = [client for client in self.hosts.clients if client.session in sessions]
        with trio.fail_after(PATIENCE):
            for client in clients:
                while not client.times or client.times[-1] < since:
                    await client.news.wait()

    async def _any(self) -> tuple[str, ShardAddress]:
        """Wait for any shard that serves on a machine that was not killed."""
        with trio.fail_after(PATIENCE):
            while True:
                name = shard_name(self.hosts.chance.randrange(SHARDS))
                shard = await self._find_shard(name)
                if shard is not None and shard.node in self.machines.nodes:
                    return name, shard
                await trio.sleep(PAUSE)

    async def _find_shard(self, name: str) -> ShardAddress | None:
        with suppress(NoAnswerError):
            return await in_thread(partial(ray_actors.where, name, LOOK_SECONDS))
        return None


@pytest.mark.campaign
async def test_faults_lose_and_double_nothing(
    tmp_path: Path, server: PostgresServer, url: str, machines: Raylets
) -> None:
    app = str(shutil.copy(DESK, tmp_path))
    (tmp_path / "url").write_text(url)  # noqa: ASYNC240 - nothing else runs yet
    program = (app, "--ray", machines.address, "--cores", str(SHARDS))
    try:
        async with crew(tmp_path / "desk", server, on_loopback(FRONTS), SEED, program=program) as hosts:
            hosts.admit(CLIENTS)
            for client in hosts.clients:
                await client.began()
            async with join_ray(machines.address), trio.open_nursery() as nursery:
                trouble = Trouble(hosts, machines)
                nursery.start_soon(trouble.make)
                if CAMPAIGN:
                    nursery.start_soon(trouble.make_in_front)
            await hosts.audit()
    finally:
        with trio.CancelScope(shield=True):
            await end_cluster(ray=machines.address)
    print(hosts.table())  # noqa: T201
    assert hosts.kills >= KILLS
    assert hosts.figures["acknowledged"] > 0
    assert "met fenced" not in hosts.figures
    assert hosts.claims_per_second() < MOST_CLAIMS
    if CAMPAIGN:
        assert hosts.figures["late writes refused"] > 0

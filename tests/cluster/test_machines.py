"""A shard is told to end, and a machine is drained or dies: sessions go on elsewhere."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from agentrail.cluster import end_cluster, ray_actors
from agentrail.cluster.ray_actors import NoAnswerError, in_thread
from agentrail.cluster.shard_plan import ShardAddress
from agentrail.models import UserMessage
from tests.adapters.journals.postgres.server import needs_postgres
from tests.cluster.raylets import Raylets, needs_ray
from tests.cluster.test_open_cluster import SHARDS, address_of_shard, cluster
from tests.cluster.viewers import Viewer, taken_gaps
from tests.profiles import CAMPAIGN

pytestmark = [pytest.mark.long, needs_ray, needs_postgres]

PATIENCE = 90.0
PAUSE = 0.2
"""Seconds between two looks: neither Ray nor the handle of a session tells of what is waited for here."""
SESSIONS = 4
DRAIN = (sys.executable, "-m", "ray.scripts.scripts", "drain-node", "--reason", "DRAIN_NODE_REASON_PREEMPTION")
"""What an operator calls as `ray drain-node`."""


async def until_prompted(viewers: list[Viewer], more: int) -> None:
    """Wait until each viewer has *more* acknowledged prompts than now."""
    counts = [len(viewer.acknowledged) for viewer in viewers]
    with trio.fail_after(PATIENCE):
        for viewer, count in zip(viewers, counts, strict=True):
            while len(viewer.acknowledged) < count + more:  # noqa: ASYNC110 - no event tells of it
                await trio.sleep(0.05)


@asynccontextmanager
async def viewed(machines: Raylets, url: str) -> AsyncGenerator[list[Viewer]]:
    """Have sessions of a cluster viewed and prompted; check at the end that all of them have heard and done all."""
    async with cluster(machines, url) as supervisor:
        viewers = [Viewer(await supervisor.spawn("desk", f"trip{number}")) for number in range(SESSIONS)]
        async with trio.open_nursery() as nursery:
            for viewer in viewers:
                nursery.start_soon(viewer.view)
            await until_prompted(viewers, 1)
            yield viewers
            for viewer in viewers:
                viewer.is_over = True
        for viewer in viewers:
            viewer.check()
            texts = [message for message in await viewer.session.messages() if isinstance(message, UserMessage)]
            assert len(texts) == len(viewer.acknowledged)


async def test_sessions_go_on_when_a_machine_dies(machines: Raylets, url: str) -> None:
    """In the campaign, a shard is told to end before."""
    async with viewed(machines, url) as viewers:
        if CAMPAIGN:
            await tell_to_end(machines, viewers)
        await kill_machine(machines, viewers)


@pytest.mark.campaign
async def test_sessions_go_on_elsewhere_while_their_shard_is_told_to_end(machines: Raylets, url: str) -> None:
    async with viewed(machines, url) as viewers:
        await tell_to_end(machines, viewers)
        await drain(machines, viewers)


@pytest.mark.campaign
async def test_a_shard_that_was_taken_for_dead_ends_when_another_one_has_its_name(machines: Raylets, url: str) -> None:
    async with viewed(machines, url) as viewers:
        await take_for_dead(machines, viewers)


@pytest.mark.campaign
async def test_nobody_stands_in_for_a_shard_that_has_ended_for_good(machines: Raylets, url: str) -> None:
    async with cluster(machines, url) as supervisor:
        sessions = [await supervisor.spawn("desk", f"trip{number}") for number in range(SESSIONS)]
        old = await living_shards()
        os.kill(old[SHARDS[0]].process, signal.SIGTERM)
        await stand_in(SHARDS[0], old[SHARDS[0]])
        await end_cluster(ray=machines.address)
        assert not any([await in_thread(partial(ray_actors.is_there, name)) for name in SHARDS])
        with trio.fail_after(PATIENCE):
            while any(is_alive(shard.process) for shard in old.values()):  # noqa: ASYNC110 - no event tells of it
                await trio.sleep(PAUSE)
    async with cluster(machines, url) as supervisor:
        for session in sessions:
            assert await supervisor.session(session.id.partition(".")[2]).messages() == ()


async def stand_in(name: str, old: ShardAddress) -> ShardAddress:
    """Wait until the shard *name* is served by another process than before, and return where."""
    other = next(shard for shard in SHARDS if shard != name)
    with trio.fail_after(PATIENCE):
        while True:
            address = await in_thread(partial(ray_actors.where_now, name, other, PATIENCE))
            if address is not None and address.process != old.process:
                return address
            await trio.sleep(PAUSE)


async def tell_to_end(machines: Raylets, viewers: list[Viewer]) -> None:
    """Tell a shard to end by a signal: the other one serves its sessions, until its next process does."""
    name, old = await elsewhere(machines)
    os.kill(old.process, signal.SIGTERM)
    other = next(shard for shard in SHARDS if shard != name)
    assert (await stand_in(name, old)).process == (await address_of_shard(other)).process
    await until_other(name, old)
    await until_prompted(viewers, 2)
    print(f"\ntold to end: gaps {taken_gaps(viewers)}")  # noqa: T201


async def drain(machines: Raylets, viewers: list[Viewer]) -> None:
    """Drain a machine: its shard leaves it, another one stands in, and the raylet ends by itself."""
    name, old = await elsewhere(machines)
    where = ("--address", machines.address, "--node-id", old.node)
    how = ("--reason-message", "to be replaced", "--deadline-remaining-seconds", "600")
    await trio.run_process([*DRAIN, *where, *how], capture_stdout=True)
    assert (await stand_in(name, old)).node != old.node
    assert (await until_other(name, old)).node != old.node
    raylet = machines.take_out(old.node)
    with trio.fail_after(PATIENCE):
        while raylet.poll() is None:  # noqa: ASYNC110 - it is of another library
            await trio.sleep(PAUSE)
    await until_prompted(viewers, 2)
    print(f"\ndrained: gaps {taken_gaps(viewers)}")  # noqa: T201


async def kill_machine(machines: Raylets, viewers: list[Viewer]) -> None:
    """Kill a machine; the sessions of its shard go on at the other."""
    name, old = await elsewhere(machines)
    machines.kill(old.node)
    assert (await until_other(name, old)).node != old.node
    await until_prompted(viewers, 2)
    print(f"\nmachine: gaps {taken_gaps(viewers)}")  # noqa: T201


async def take_for_dead(machines: Raylets, viewers: list[Viewer]) -> None:
    """Let Ray take a shard for dead, which lives on: it ends when another process has its name."""
    name, old = await elsewhere(machines)
    machines.kill(old.node, reap=False)
    with trio.fail_after(PATIENCE):
        while is_alive(old.process):  # noqa: ASYNC110 - no event tells of it
            await trio.sleep(PAUSE)
    assert (await until_other(name, old)).node != old.node
    await until_prompted(viewers, 2)
    print(f"\ntaken for dead: gaps {taken_gaps(viewers)}")  # noqa: T201


def is_alive(process: int) -> bool:
    """Whether there is a process that is not a zombie of the system."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False


async def living_shards() -> dict[str, ShardAddress]:
    """Return where the shards are that serve now."""
    shards: dict[str, ShardAddress] = {}
    for name in SHARDS:
        with suppress(NoAnswerError):
            shards[name] = await address_of_shard(name)
    return shards


async def until_other(name: str, old: ShardAddress) -> ShardAddress:
    """Wait until another process is the shard *name*, and return where."""
    with trio.fail_after(PATIENCE):
        while (shard := (await living_shards()).get(name, old)).process == old.process:  # noqa: ASYNC110
            await trio.sleep(PAUSE)
    return shard


async def elsewhere(machines: Raylets) -> tuple[str, ShardAddress]:
    """Wait until a shard is not on the machine to which Ray has connected this program; return it, and where it is."""
    with trio.fail_after(PATIENCE):
        while True:
            for name, shard in (await living_shards()).items():
                if shard.node != machines.own_node():
                    return name, shard
            await trio.sleep(PAUSE)

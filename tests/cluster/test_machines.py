"""A shard is told to end, and a machine dies: sessions go on elsewhere, and shards are spread again."""

from __future__ import annotations

import os
import signal

import pytest
import trio

from agentrail.cluster.shard_plan import ShardPlace
from agentrail.values.messages import UserMessage
from tests.adapters.journals.postgres.server import needs_postgres
from tests.cluster.raylets import Raylets, needs_ray
from tests.cluster.test_open_cluster import cluster, place
from tests.cluster.viewers import Viewer, longest

pytestmark = [pytest.mark.long, needs_ray, needs_postgres]

PATIENCE = 90.0
SESSIONS = 4
NAMES = ("shard-0", "shard-1")


async def until_prompted(viewers: list[Viewer], more: int) -> None:
    """Wait until each viewer has *more* acknowledged prompts than now."""
    before = [len(viewer.acknowledged) for viewer in viewers]
    with trio.fail_after(PATIENCE):
        for viewer, count in zip(viewers, before, strict=True):
            while len(viewer.acknowledged) < count + more:  # noqa: ASYNC110 - no event tells of it
                await trio.sleep(0.05)


async def test_sessions_go_on_when_a_shard_ends_and_a_machine_dies(machines: Raylets, url: str) -> None:
    async with cluster(machines, url) as supervisor:
        sessions = [await supervisor.spawn("desk", f"trip{number}") for number in range(SESSIONS)]
        viewers = [Viewer(session) for session in sessions]
        name, old = await elsewhere(machines)
        async with trio.open_nursery() as nursery:
            for viewer in viewers:
                nursery.start_soon(viewer.view)
            await until_prompted(viewers, 1)
            os.kill(old.process, signal.SIGTERM)
            await until_prompted(viewers, 2)
            ended = await place(name)
            assert ended.process != old.process
            print(f"\ntold to end: gaps {longest(viewers)}")  # noqa: T201
            name, old = await elsewhere(machines) if ended.node == machines.own_node() else (name, ended)
            for viewer in viewers:
                viewer.gap = 0.0
            machines.kill(old.node)
            await until_prompted(viewers, 2)
            print(f"machine: gaps {longest(viewers)}")  # noqa: T201
            assert (await place(name)).node != old.node
            added = machines.add()
            with trio.fail_after(PATIENCE):
                while added not in {(await place(each)).node for each in NAMES}:  # noqa: ASYNC110 - Ray tells nobody
                    await trio.sleep(0.5)
            await until_prompted(viewers, 1)
            for viewer in viewers:
                viewer.is_over = True
        for viewer in viewers:
            viewer.check()
            texts = [each for each in await viewer.session.messages() if isinstance(each, UserMessage)]
            assert len(texts) == len(viewer.acknowledged)


async def elsewhere(machines: Raylets) -> tuple[str, ShardPlace]:
    """Return a shard that is not on the machine to which Ray has connected this program, and where it is."""
    for name in NAMES:
        found = await place(name)
        if found.node != machines.own_node():
            return name, found
    raise AssertionError

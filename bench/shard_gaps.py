"""How long viewers see nothing when a shard on Ray or its machine is killed, with the settings that users get.

Two machines, each a raylet of its own, and a shard on each; sessions stream in both. A shard is killed at some moment;
another one stands in for it, and hands its sessions back as soon as Ray has made it anew: both are in the gap.

`python -m bench.shard_gaps [shards|machines] [KILLS]`
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TypeAlias

import trio

from agentrail.cluster import end_cluster, open_cluster, ray_actors
from agentrail.cluster.ray_actors import NoAnswerError, in_thread
from agentrail.cluster.shard_plan import ShardAddress
from tests.adapters.journals.postgres.server import PostgresServer, folder_of_servers
from tests.cluster.raylets import KEY, Raylets, raylets
from tests.cluster.test_open_cluster import DESK, SHARDS
from tests.cluster.viewers import Viewer, taken_gaps

Kill: TypeAlias = Callable[[ShardAddress], None]

KILLS = 20
WITHIN: Mapping[str, float] = {"shards": 2.5, "machines": 5.0}
"""The most seconds that viewers may see nothing, by what is killed."""
SESSIONS = 6
WATCHED = 1.5
"""Seconds for which the sessions are watched after the shard is back."""

WAIT = 30.0


async def until_back(name: str, old: ShardAddress) -> None:
    """Wait until Ray has made a shard anew, and it serves."""
    while True:
        try:
            if (await in_thread(partial(ray_actors.where, name, WAIT))).process != old.process:
                return
        except NoAnswerError:
            await trio.sleep(0.05)


async def gap(number: int, viewers: Sequence[Viewer], chance: Random, kill: Kill) -> float:
    """Kill a shard, or more; return the longest gap of *viewers* until after it is back."""
    name = SHARDS[number % len(SHARDS)]
    old = await in_thread(partial(ray_actors.where, name, WAIT))
    await trio.sleep(chance.uniform(0, 2))
    taken_gaps(viewers)
    kill(old)
    killed = time.monotonic()
    await until_back(name, old)
    back = time.monotonic() - killed
    await trio.sleep(WATCHED)
    longest = taken_gaps(viewers)[-1]
    print(f"{longest:.2f} s, made anew after {back:.2f} s", flush=True)
    return longest


def kill_shard(place: ShardAddress) -> None:
    """Kill the process of a shard."""
    os.kill(place.process, signal.SIGKILL)


async def gaps(machines: Raylets, url: str, numbers: range, chance: Random, kill: Kill) -> list[float]:
    """Open a cluster, and kill once for each of *numbers*; return the longest gap of each."""
    async with open_cluster(DESK, shards=2, key=KEY, journal=url, ray=machines.address) as supervisor:
        viewers = [Viewer(await supervisor.spawn("desk", f"trip{numbers.start}-{n}")) for n in range(SESSIONS)]
        async with trio.open_nursery() as nursery:
            for viewer in viewers:
                nursery.start_soon(viewer.view)
            await trio.sleep(WATCHED)
            longest = [await gap(number, viewers, chance, kill) for number in numbers]
            for viewer in viewers:
                viewer.is_over = True
        for viewer in viewers:
            viewer.check()
    await end_cluster(ray=machines.address)
    return longest


async def run(machines: Raylets, url: str, what: str, kills: int) -> bool:
    """Kill shards or machines, print the gaps, and return whether the longest is short enough."""
    chance, every = Random("gaps"), list[float]()
    if what == "shards":
        every = await gaps(machines, url, range(kills), chance, kill_shard)
    else:
        for number in range(kills):  # a cluster for each: shards of a machine that was killed stay on the other one
            machines.fill()
            one = range(number, number + 1)
            every += await gaps(machines, url, one, chance, lambda place: machines.kill(place.node))
    middle, longest, bar = statistics.median(every), max(every), WITHIN[what]
    print(f"{kills} {what} killed: gap {middle:.2f} s median, {longest:.2f} s at most (bar {bar})")
    return longest <= bar


def main(what: str = "shards", kills: str = str(KILLS)) -> int:
    """Start a database and Ray, and measure; return 1 if the bar is missed."""
    with folder_of_servers() as folder:
        server = PostgresServer(folder)
        server.make()
        server.start()
        try:
            with raylets() as machines:
                return 0 if trio.run(run, machines, server.url, what, int(kills)) else 1
        finally:
            server.kill()


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

"""`Shards`: makes the shards of a plan, replaces those of another version, ends them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
import trio

from agentrail.cluster import ray_actors
from agentrail.cluster.ray_actors import NoAnswerError, in_thread
from agentrail.cluster.shard_actor import ShardActor
from agentrail.cluster.shard_plan import ShardPlace, ShardPlan, shard_name
from agentrail.errors import BadChoice, HostNotReached
from agentrail.ports.journal import SLOTS

log = logging.getLogger("agentrail.cluster")

START_SECONDS: Final = 60.0
"""How long a shard may take until it serves."""

DRAIN_SECONDS: Final = 300.0
"""How long a shard may take to park its sessions."""

ANSWER_SECONDS: Final = 2.0

GONE_PAUSE: Final = 0.05

LOOK_THERE: Final = "see the log of the actor in Ray, and whether all machines have the program and reach the journal"
NO_MACHINE: Final = "no machine of Ray has a CPU for it"
ADD_ONE: Final = "add one by `ray start --address …`, without `--num-cpus 0`"
OTHER_COUNT: Final = "{0}, as there are; with `replace=True` they are all parked, and made anew"
OTHER_PROGRAM: Final = (
    "the one of version {0} that runs, or `replace=True`, which makes the shards anew one by one, with version {1}"
)


class Shards:
    """The shards of *plan*."""

    def __init__(self, plan: ShardPlan) -> None:
        self._plan = plan
        self._content = msgspec.json.encode(plan)

    async def ensure(self, *, replace: bool) -> None:
        """Make the shards that are missing, and wait until all serve.

        Those of another plan raise `BadChoice`, or are replaced.
        """
        count = await self._counted()
        if count not in {0, self._plan.count}:
            if not replace:
                raise BadChoice("shards", self._plan.count, OTHER_COUNT.format(count))
            await end_shards()
        nodes = await self._nodes()
        for number in range(self._plan.count):
            if number not in nodes:
                nodes[number] = await self._emptiest(nodes)
                await self._create(number, nodes[number])
        version = await in_thread(self._plan.version)
        for number in range(self._plan.count):
            place = await self._place(number)
            if place.version != version:
                if not replace:
                    raise BadChoice("app", self._plan.file, OTHER_PROGRAM.format(place.version, version))
                await self.replace(number)

    async def replace(self, number: int) -> None:
        """Park the sessions of a shard, end it and make it anew, on the machine with the fewest others."""
        await _end(shard_name(number), "drain")
        await self._create(number, await self._emptiest(await self._nodes()))
        await self._place(number)

    async def _nodes(self) -> dict[int, str]:
        """Return on which machine each shard is, by its number; those that do not answer are left out."""
        nodes: dict[int, str] = {}
        for number in range(self._plan.count):
            name = shard_name(number)
            if await in_thread(partial(ray_actors.is_there, name)):
                with suppress(NoAnswerError):
                    nodes[number] = (await in_thread(partial(ray_actors.where, name, ANSWER_SECONDS))).node
        return nodes

    async def _emptiest(self, nodes: Mapping[int, str]) -> str:
        """Return the machine with the fewest shards."""
        counts, alive = Counter(nodes.values()), await in_thread(ray_actors.machines)
        if not alive:
            raise HostNotReached(shard_name(0), NO_MACHINE, ADD_ONE)
        return min(alive, key=counts.__getitem__)

    async def _counted(self) -> int:
        """Return how many shards there are, as the first one knows; 0 if there is none."""
        if not await in_thread(partial(ray_actors.is_there, shard_name(0))):
            return 0
        return (await self._place(0)).count

    async def _create(self, number: int, node: str) -> None:
        name, args = shard_name(number), (number, self._content)
        await in_thread(partial(ray_actors.create, ShardActor, name, args, node))

    async def _place(self, number: int) -> ShardPlace:
        """Wait until a shard serves; raise `HostNotReached`, which says why it does not."""
        problem, until = "", trio.current_time() + START_SECONDS
        while trio.current_time() < until:
            try:
                return await in_thread(partial(ray_actors.where, shard_name(number), START_SECONDS))
            except NoAnswerError as error:
                problem = str(error)
            await trio.sleep(GONE_PAUSE)
        raise HostNotReached(shard_name(number), problem, LOOK_THERE)


async def _end(name: str, method: str) -> None:
    """Park the sessions of the shard *name* by *method*, and end it; return when there is none of this name."""
    try:
        await in_thread(partial(ray_actors.ask, name, method, DRAIN_SECONDS))
    except NoAnswerError as error:
        log.warning("%s does not park its sessions, and is ended: %s", name, error)
    await in_thread(partial(ray_actors.kill, name))
    with trio.move_on_after(START_SECONDS):
        while await in_thread(partial(ray_actors.is_there, name)):  # noqa: ASYNC110 - Ray tells nobody
            await trio.sleep(GONE_PAUSE)
        return
    log.warning("%s is there again: another program has made it", name)


async def end_shards() -> None:
    """End all shards that there are for good, beside each other."""
    async with trio.open_nursery() as nursery:  # noqa: TID251 - each task ends by itself
        for number in range(SLOTS):
            if await in_thread(partial(ray_actors.is_there, shard_name(number))):
                nursery.start_soon(_end, shard_name(number), "end")

"""`cluster_state`: which shards there are, as Ray and they say, for an operator; nothing is made or changed."""

from __future__ import annotations

from functools import partial
from typing import Final

import trio

from agentrail.cluster import ray_actors
from agentrail.cluster.opened_cluster import join_ray
from agentrail.cluster.ray_actors import NoAnswerError, in_thread
from agentrail.cluster.shard_plan import ShardPlace, shard_name
from agentrail.ports.journal import SLOTS
from agentrail.values.value import Value

ANSWER_SECONDS: Final = 2.0
NO_ACTOR: Final = "Ray has no actor of this name"


class ShardState(Value):
    """One shard."""

    name: str
    """Its name."""
    place: ShardPlace | None
    """Where it is; `None` if it is missing."""
    problem: str = ""
    """Why it is missing."""


class ClusterState(Value):
    """The cluster of Ray, as one program saw it."""

    machines: int
    """How many machines run actors."""
    shards: tuple[ShardState, ...]
    """Those that there are, and those that the others know of."""


async def cluster_state(ray: str) -> ClusterState:
    """Look at the cluster of Ray at the address *ray*; raise `HostNotReached` if there is none."""
    states: dict[int, ShardState] = {}

    async def look(number: int) -> None:
        name = shard_name(number)
        if await in_thread(partial(ray_actors.is_there, name)):
            try:
                place = await in_thread(partial(ray_actors.where, name, ANSWER_SECONDS))
                states[number] = ShardState(name, place)
            except NoAnswerError as error:
                states[number] = ShardState(name, None, str(error))

    async with join_ray(ray):
        machines = await in_thread(ray_actors.machines)
        async with trio.open_nursery() as nursery:  # noqa: TID251 - each task ends with its time
            for number in range(SLOTS):
                nursery.start_soon(look, number)
    count = max((state.place.count for state in states.values() if state.place is not None), default=0)
    absent = {number: ShardState(shard_name(number), None, NO_ACTOR) for number in range(count)}
    return ClusterState(len(machines), tuple([state for _, state in sorted((absent | states).items())]))

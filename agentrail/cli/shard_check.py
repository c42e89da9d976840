"""Looks at the shards of a cluster of Ray, for `agentrail doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentrail.cli.doctor_diagnosis import BAD, GOOD, NOTE, Diagnosis, differences
from agentrail.cli.host_check import check_members
from agentrail.cluster.shard_states import ClusterState, cluster_state
from agentrail.errors import AgentrailError
from agentrail.remote.transport.host_address import HostAddress

RAY: Final = "ray"
SHARD: Final = "shard"
NO_SHARDS: Final = "`agentrail serve --ray` or `open_cluster` makes them"
COME_BACK: Final = "Ray makes it anew, if a machine has a CPU for it; the log of its actor in Ray says why it ends"
REPLACE: Final = "make them anew, one by one, with the program that is to run: `agentrail serve --ray … --replace`"


async def check_shards(ray: str, variable: str) -> list[Diagnosis]:
    """Look at the cluster at the address *ray*; *variable*: of the environment, with the key of the shards."""
    try:
        state = await cluster_state(ray)
    except AgentrailError as error:
        return [Diagnosis(RAY, BAD, f"{ray} cannot be looked at", str(error))]
    places = {
        shard.name: HostAddress(shard.place.host, shard.place.port) for shard in state.shards if shard.place is not None
    }
    return [*shard_findings(ray, state), *await check_members(places, variable)]


def shard_findings(ray: str, state: ClusterState) -> Iterator[Diagnosis]:
    """Yield what is to be said of a cluster of Ray and its shards, as Ray tells."""
    machines = f"{state.machines} machine{'' if state.machines == 1 else 's'}"
    yield Diagnosis(RAY, GOOD if state.machines else BAD, f"{ray} has {machines} for shards", _machines_to_do(state))
    if not state.shards:
        yield Diagnosis(SHARD, NOTE, "there are none", NO_SHARDS)
    for shard in state.shards:
        if shard.place is None:
            yield Diagnosis(SHARD, BAD, f"{shard.name} is missing: {shard.problem}", COME_BACK)
        else:
            place = shard.place
            where = f"{place.host}:{place.port}, process {place.process} on machine {place.node[:8]}"
            yield Diagnosis(SHARD, GOOD, f"{shard.name} of {place.count} is at {where}, with version {place.version}")
    versions = {
        shard.name: f"{shard.place.version}, of {shard.place.count}:"
        for shard in state.shards
        if shard.place is not None
    }
    yield from differences(SHARD, "shards have different versions", versions, REPLACE)


def _machines_to_do(state: ClusterState) -> str:
    return "" if state.machines else "add one by `ray start --address …`, without `--num-cpus 0`"

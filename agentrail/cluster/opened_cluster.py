"""`open_cluster`: a program's way to sessions in shards, which Ray places; `open_front`: a host in front of them.

Both make the `Shards` of a plan.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from agentrail.adapters.python_file import split_name
from agentrail.api.operation_table import SCOPES
from agentrail.cluster import ray_actors
from agentrail.cluster.ray_actors import NoAnswerError, in_thread
from agentrail.cluster.shard_actor import ShardActor
from agentrail.cluster.shard_cluster import ShardCluster, open_lines
from agentrail.cluster.shard_plan import LEASE, ShardAddress, ShardPlan, shard_name
from agentrail.errors import BadChoice, HostNotReached
from agentrail.host.authentication.identity import Identity
from agentrail.host.host_server import Host
from agentrail.host.served_file import ServedFile, find_host
from agentrail.open_context import OpenContext, Way
from agentrail.ports.journal import SLOTS
from agentrail.remote.remote_supervisor import RemoteSupervisor
from agentrail.remote.transport.host_address import cut_reason
from agentrail.remote.transport.host_connection import PATIENCE
from agentrail.values.argument_checks import checked
from agentrail.values.secrets import Secret, secret_name

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
            shard = await self._await_shard(number)
            if shard.version != version:
                if not replace:
                    raise BadChoice("app", self._plan.file, OTHER_PROGRAM.format(shard.version, version))
                await self.replace(number)

    async def replace(self, number: int) -> None:
        """Park the sessions of a shard, end it and make it anew, on the machine with the fewest others."""
        await _end(shard_name(number), "drain")
        await self._create(number, await self._emptiest(await self._nodes()))
        await self._await_shard(number)

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
        return (await self._await_shard(0)).count

    async def _create(self, number: int, node: str) -> None:
        name, args = shard_name(number), (number, self._content)
        await in_thread(partial(ray_actors.create, ShardActor, name, args, node))

    async def _await_shard(self, number: int) -> ShardAddress:
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


OPENING: Final = Way("open a cluster", "open_cluster", "supervisor", "app, …")
COUNTS: Final = f"a number from 1 to {SLOTS}, one for each core, say"
NO_FILE: Final = "a Python file, as of `agentrail serve`, at the same path on each machine"
AUTO: Final = "auto"

KNOCK_SECONDS: Final = 5.0
"""How long the head of Ray may take to be reached."""

START_RAY: Final = "give the address that `ray start --head` has printed, and let this machine reach it"


@checked
def open_cluster(  # noqa: PLR0913 - each is an option of its own
    app: str,
    *,
    shards: int,
    key: str | Secret,
    journal: str = "",
    ray: str = AUTO,
    lease: float = LEASE,
    tenant: str = "local",
    user: str = "you",
    replace: bool = False,
    patience: float = PATIENCE,
) -> AbstractAsyncContextManager[RemoteSupervisor]:
    """Open a cluster of *shards* for the time of the `async with`; they are made if there are none, and live on.

    *app* is `FILE[:NAME]`, as of `agentrail serve`: a `Host`, a `Profile` or a `SessionSpec`. The file is at the same
    path on each machine, and so is agentrail. *journal* is the URL of the database, unless the `Host` of the file has
    one. *key* is that of the cluster (see `Cluster`), and *lease* too; a `Secret` is looked up on each machine. *ray*
    is the address of Ray, or `auto`. Sessions are those of *user* of *tenant*, who may do everything.

    Each session runs in one shard, which its id says. Ray makes a shard that dies anew, elsewhere if need be: handles
    outlive it, and calls wait for it for *patience* seconds. Shards of another program, or another number of them, are
    refused; with *replace* their sessions are parked, and they are made anew, one by one if their number stays.
    """
    plan = made_plan(app, shards, key, journal, lease)
    who = Identity(tenant, user, frozenset(SCOPES))
    return OpenContext(_opened(plan, ray, who, patience, replace=replace), RemoteSupervisor, OPENING)


def made_plan(app: str, shards: int, key: str | Secret, journal: str, lease: float) -> ShardPlan:
    """Return the plan of these arguments of `open_cluster`; raise `BadChoice` if one is wrong."""
    file, name = split_name(app)
    if not Path(file).is_file():
        raise BadChoice("app", app, NO_FILE)
    if not 1 <= shards <= SLOTS:
        raise BadChoice("shards", shards, COUNTS)
    variable = secret_name(key)
    text = key if variable is None and isinstance(key, str) else ""
    plan = ShardPlan(shards, str(Path(file).resolve()), name, journal, lease, text, variable or "")
    ShardCluster(plan)  # it checks the key and the lease
    return plan


@asynccontextmanager
async def _opened(
    plan: ShardPlan, ray: str, who: Identity, patience: float, *, replace: bool
) -> AsyncGenerator[RemoteSupervisor]:
    async with (
        open_shards(plan, ray, replace=replace) as cluster,
        open_lines(cluster, who, patience) as lines,
    ):
        yield RemoteSupervisor(lines)


@asynccontextmanager
async def open_shards(plan: ShardPlan, ray: str, *, replace: bool) -> AsyncGenerator[ShardCluster]:
    """Join Ray, for the time of the `async with`, and make the shards of *plan* that are missing."""
    async with join_ray(ray):
        await Shards(plan).ensure(replace=replace)
        yield ShardCluster(plan)


@checked
async def end_cluster(*, ray: str = AUTO) -> None:
    """Park the sessions of all shards, and end them; the sessions stay in the journal."""
    async with join_ray(ray):
        await end_shards()


@asynccontextmanager
async def join_ray(address: str) -> AsyncGenerator[None]:
    """Connect to Ray, unless this program is connected; then leave it at the end, too."""
    await _knock(address)
    is_own = await in_thread(partial(ray_actors.join, address))
    try:
        yield
    finally:
        if is_own:
            await ray_actors.leave()  # noqa: ASYNC102 - it is shielded, and bounds its time


async def _knock(address: str) -> None:
    """Raise `HostNotReached` if nobody listens at *address*, which Ray would find out in minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        return
    problem = f"it did not answer within {KNOCK_SECONDS:g} s"
    with trio.move_on_after(KNOCK_SECONDS):
        try:
            stream = await trio.open_tcp_stream(host.strip("[]"), int(port))
        except OSError as error:
            raise HostNotReached(address, cut_reason(error), START_RAY) from None
        await trio.aclose_forcefully(stream)
        return
    raise HostNotReached(address, problem, START_RAY)


KEY: Final = Secret("AGENTRAIL_CLUSTER_KEY")
"""Names the variable with the key of the cluster, on each machine."""


@asynccontextmanager
async def open_front(
    served: ServedFile, shards: int, ray: str, *, replace: bool
) -> AsyncGenerator[tuple[Host, str], None]:
    """Make *shards* of a file for the cluster of Ray at *ray*; yield a host in front of them, and what describes it."""
    app = f"{served.file}:{served.name}" if served.name else str(served.file)
    plan = made_plan(app, shards, KEY, served.journal if isinstance(served.journal, str) else "", LEASE)
    async with open_shards(plan, ray, replace=replace) as cluster:
        host, description = find_host(served, cluster)
        yield host, f"{description} by {shards} shards"

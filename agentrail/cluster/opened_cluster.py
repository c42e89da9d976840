"""`open_cluster`: a program's way to sessions that run on several machines, which Ray places and restarts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.python_file import split_name
from agentrail.api.operation_table import SCOPES
from agentrail.cluster import ray_actors
from agentrail.cluster.ray_actors import in_thread
from agentrail.cluster.shard_cluster import ShardCluster
from agentrail.cluster.shard_lines import open_lines
from agentrail.cluster.shard_plan import LEASE, ShardPlan
from agentrail.cluster.shards import Shards, end_shards
from agentrail.errors import BadChoice, HostNotReached
from agentrail.host.authentication.identity import Identity
from agentrail.open_context import OpenContext, Way
from agentrail.ports.journal import SLOTS
from agentrail.remote.remote_supervisor import RemoteSupervisor
from agentrail.remote.transport.dialling import cut_reason
from agentrail.remote.transport.host_connection import PATIENCE
from agentrail.values.argument_checks import checked
from agentrail.values.secrets import Secret, secret_name

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
            ray_actors.leave()  # it takes milliseconds, and a thread could not be awaited here


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

"""`open_front`: a host in front of the shards: it has users, pages and limits, and runs no sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from agentrail.cluster.opened_cluster import made_plan, open_shards
from agentrail.cluster.shard_plan import LEASE
from agentrail.host.host_server import Host
from agentrail.host.served_file import ServedFile, find_host
from agentrail.values.secrets import Secret

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

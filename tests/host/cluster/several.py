"""Several hosts on one journal, each on a port of its own, and clients with keys."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import trio

from agentrail import SessionSpec
from agentrail.app.supervisor import look_at_slots, others_of
from agentrail.host import ApiKeys, Cluster, Face, Host, HostLimits, HostPlugin, Profile
from agentrail.journals import Journal
from tests.free_port import free_port
from tests.host.hosted import CERTIFICATES, KEYS, LINES, Desk
from tests.patience import PATIENCE

KEY = "k" * 32
LEASE = 1.0
"""Of hosts for whose end others wait. A process that gets no CPU for so long loses its sessions."""

KNOWN_LEASE = 3.0
"""Of hosts that are to know each other: who has lost a slot to another one hears of it after a third."""

LONG_LEASE = 60.0
"""Of all others."""


@asynccontextmanager
async def open_member(  # noqa: PLR0913 - each is an option of its own
    journal: Journal,
    spec: SessionSpec,
    plugins: Sequence[HostPlugin] = (),
    limits: HostLimits | None = None,
    port: int = 0,
    key: str = KEY,
    cluster: Cluster | None = None,
    lease: float = LONG_LEASE,
    *,
    faces: Sequence[Face] = (),
) -> AsyncGenerator[Desk]:
    """Serve a host of the cluster on *port*, or on any; or one of a *cluster* with ways of its own."""
    cluster = cluster or Cluster(f"http://127.0.0.1:{port or free_port()}", key, lease=lease)
    url = cluster.address
    port = int(url.rpartition(":")[2])
    host = Host(
        [Profile("desk", spec)],
        plugins,
        authenticator=ApiKeys(lines=LINES),
        journal=journal,
        limits=limits or HostLimits(drain_seconds=0.3),
        cluster=cluster,
        faces=faces,
    )
    async with host.serving(port) as serving, AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(
                httpx.AsyncClient(
                    base_url=url,
                    headers={"authorization": f"Bearer {key}"},
                    timeout=2 * PATIENCE,
                    trust_env=False,
                    verify=CERTIFICATES,
                )
            )
            for name, key in KEYS.items()
        }
        yield Desk(serving, clients)


@asynccontextmanager
async def two_members(
    journal: Journal, spec: SessionSpec, plugins: Sequence[HostPlugin] = (), limits: HostLimits | None = None
) -> AsyncGenerator[tuple[Desk, Desk]]:
    """Serve two hosts on *journal*."""
    async with (
        open_member(journal, spec, plugins, limits, lease=KNOWN_LEASE) as first,
        open_member(journal, spec, plugins, limits, lease=KNOWN_LEASE) as second,
    ):
        yield first, second


async def until_known(*desks: Desk) -> None:
    """Have *desks*, with a lease of `KNOWN_LEASE`, look for each other until all know all others."""
    supervisors = [desk.serving.supervisor for desk in desks]
    with trio.fail_after(PATIENCE):
        while any(len(others_of(supervisor)) < len(desks) - 1 for supervisor in supervisors):
            for supervisor in supervisors:
                look_at_slots(supervisor)
            await trio.sleep(0.05)

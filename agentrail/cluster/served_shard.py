"""`ServedShard`: the host of a shard, in this process: of its own shard, or of another one whose process is dead.

It runs on Trio in a thread; Ray calls its methods in threads of its own. Its `Tenure` says whether it is still
the one of its name.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Final, cast

import msgspec
import trio

from agentrail.cluster import ray_actors
from agentrail.cluster.shard_cluster import ShardCluster
from agentrail.cluster.shard_plan import ShardPlace, ShardPlan, shard_name
from agentrail.errors import AgentrailError, JournalUnavailable
from agentrail.host.host_server import Host
from agentrail.host.served_file import ServedFile, find_host
from agentrail.ports.journal import Claim, Journal, Lease
from agentrail.runtime.shared.clock import Clock

log = logging.getLogger("agentrail.cluster")

PERIOD: Final = 0.5
"""Seconds between two looks."""


class Tenure:
    """The name *name* of a shard, claimed in *journal* by its newest process: Ray may have taken an older one for dead.

    The fence of the journal keeps such a zombie from writing to what the newest has claimed. But it would claim
    sessions again, at the same address, whenever somebody asks for them: so it ends as soon as it knows.
    """

    def __init__(self, journal: Journal, name: str, lasts: float) -> None:
        self._journal = journal
        self._name = f"-{name}"  # no session can have this id
        self._holder = f"{name}/{secrets.token_hex(8)}"
        self._lasts = int(1000 * lasts)
        self._claim: Claim | None = None

    async def begin(self) -> None:
        """Take the name, from whoever has it."""
        self._claim = await self._journal.claim(self._name, self._holder, self._lease(), take_over=True)

    async def lost(self) -> None:
        """Wait until another process has the name."""
        while True:
            await trio.sleep(PERIOD)
            try:
                if self._claim is None or await self._journal.renew([self._claim], self._lease()):
                    return
            except JournalUnavailable:
                continue  # then nobody else can take it either

    async def end(self) -> None:
        """Give the name up."""
        claim, self._claim = self._claim, None
        if claim is not None:
            try:
                await self._journal.release([claim])
            except AgentrailError:
                return  # its lease ends by itself

    def _lease(self) -> Lease:
        return Lease(Clock().now_ms(), self._lasts)


EVERYBODY: Final = ("0.0.0.0/0", "::/0")
"""Whoever has the key of the cluster is believed what it says of its clients."""

BEGINS: Final = "it begins"
ENDS: Final = "it is ending"


class ServedShard:
    """The shard *number* of *plan*; *when_lost* is called if another process has its name."""

    def __init__(self, plan: ShardPlan, number: int, when_lost: Callable[[], None]) -> None:
        self.name = shard_name(number)
        """Its name."""
        self.has_served = False
        """Whether its place was known once."""
        self.problem = BEGINS
        """Why it does not serve, if it does not."""
        self._plan = plan
        self._number = number
        self._when_lost = when_lost
        self._place: ShardPlace | None = None
        self._known = threading.Event()
        self._told = threading.Event()
        self._over = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._bell: trio.Event | None = None

    @property
    def is_ending(self) -> bool:
        """Whether it was told to end."""
        return self._told.is_set()

    # From any thread

    def where(self, seconds: float) -> bytes:
        """Return the `ShardPlace`, when the host serves; nothing if it does not within so many seconds, or ends."""
        self._known.wait(seconds)
        place = self._place
        return b"" if place is None else msgspec.json.encode(place)

    def fail(self, problem: str) -> None:
        """Tell those who ask where it is that there is a *problem*."""
        self.problem = problem
        self._known.set()

    def end(self) -> None:
        """Have all sessions parked, and `serve` return."""
        self._told.set()
        self._place = None
        self.fail(ENDS)
        if self._token is not None and self._bell is not None:
            try:
                self._token.run_sync_soon(self._bell.set)
            except trio.RunFinishedError:
                return

    def drain(self) -> None:
        """Have all sessions parked, and return when that is done."""
        self.end()
        self._over.wait()

    # On Trio

    async def serve(self, when_ready: Callable[[], Awaitable[None]]) -> None:
        """Take the name of the shard, as soon as *when_ready* has returned, and serve until it is told to end."""
        try:
            self._bell, self._token = trio.Event(), trio.lowlevel.current_trio_token()
            if not self.is_ending:
                await self._serve(when_ready)
        finally:
            self._over.set()

    async def _serve(self, when_ready: Callable[[], Awaitable[None]]) -> None:
        plan = self._plan
        served = ServedFile(Path(plan.file) if plan.file else None, plan.name, plan.journal or None)
        host, description = find_host(served, ShardCluster(plan, self._number))
        tenure = Tenure(cast("Journal", host.journal), self.name, plan.lease)
        await when_ready()
        await tenure.begin()
        log.info("%s of %d serves %s", self.name, plan.count, description)
        async with trio.open_nursery() as nursery:  # noqa: TID251 - it is the root of what the shard does
            nursery.start_soon(self._watch, tenure, nursery.cancel_scope)
            await self._host(host)
            nursery.cancel_scope.cancel()
        await tenure.end()

    async def _host(self, host: Host) -> None:
        """Serve until the shard is told to end."""
        address, node = str(import_module("ray.util").get_node_ip_address()), ray_actors.own_machine()
        async with host.serving(0, address, proxies=EVERYBODY) as serving:
            port = int(serving.url.rpartition(":")[2])
            if not self.is_ending:
                self._place = ShardPlace(address, port, self._plan.version(), self._plan.count, node, os.getpid())
                self.has_served = True
                self._known.set()
            await cast("trio.Event", self._bell).wait()
            self._place = None

    async def _watch(self, tenure: Tenure, scope: trio.CancelScope) -> None:
        """End if another process has the name now."""
        await tenure.lost()
        log.error("another process is %s now: this one ends", self.name)
        self._when_lost()
        scope.cancel()

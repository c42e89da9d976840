"""`ShardActor`: a shard: an actor of Ray, in whose process a thread runs a host on Trio.

Ray has the main thread. When the host ends without having been told so, the process ends, and Ray makes a new one.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

import msgspec
import trio

from agentrail.cluster.shard_cluster import ShardCluster
from agentrail.cluster.shard_plan import ShardPlace, read_plan, shard_name
from agentrail.cluster.tenure import Tenure
from agentrail.host.host_server import Host
from agentrail.host.served_file import ServedFile, find_host
from agentrail.ports.journal import Journal
from agentrail.values.untrusted_values import described

log = logging.getLogger("agentrail.cluster")

BEGIN_SECONDS: Final = 30.0
"""How long callers wait for a shard that begins."""

FAILED_SECONDS: Final = 3.0
"""How long a shard that cannot begin tells why, before its process ends and Ray makes another."""

EVERYBODY: Final = ("0.0.0.0/0", "::/0")
"""Whoever has the key of the cluster is believed what it says of its clients."""

BEGINS: Final = "it begins"
ENDS: Final = "it is ending"


class RayContext(Protocol):
    """Where an actor is."""

    def get_node_id(self) -> str: ...  # noqa: D102


class ShardActor:
    """The shard *number* of a plan."""

    def __init__(self, number: int, plan: bytes) -> None:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
        self._number = number
        self._plan = read_plan(plan)
        self._place: ShardPlace | None = None
        self._problem = BEGINS
        self._known = threading.Event()
        self._over = threading.Event()
        self._is_ending = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._bell: trio.Event | None = None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._terminate)
        threading.Thread(target=self._run, name="agentrail", daemon=True).start()

    # For callers, by way of Ray

    def where(self) -> bytes:
        """Return the `ShardPlace`, when the host serves; raise an error that says why it does not."""
        self._known.wait(BEGIN_SECONDS)
        if self._place is None:
            raise RuntimeError(self._problem)
        return msgspec.json.encode(self._place)

    def drain(self) -> None:
        """Park all sessions, and return when that is done; the process waits for its end."""
        self._end()
        self._over.wait()

    # The process

    def _terminate(self, *_: object) -> None:
        """Park all sessions, then end the process: Ray makes a new one, here or elsewhere."""
        threading.Thread(target=self._end_process, name="agentrail-end", daemon=True).start()

    def _end_process(self) -> None:
        self.drain()
        os._exit(0)

    def _end(self) -> None:
        self._is_ending, self._problem, self._place = True, ENDS, None
        self._known.set()
        if self._token is not None and self._bell is not None:
            try:
                self._token.run_sync_soon(self._bell.set)
            except trio.RunFinishedError:
                return

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # noqa: ASYNC103 - no event loop runs here, and the process ends
            log.exception("the shard ends")
            if self._place is None and not self._is_ending:
                self._problem = described(error)
                self._known.set()
                time.sleep(FAILED_SECONDS)
            os._exit(1)
        self._over.set()
        if not self._is_ending:
            os._exit(1)

    async def _serve(self) -> None:
        self._bell, self._token = trio.Event(), trio.lowlevel.current_trio_token()
        if self._is_ending:
            return
        plan, cluster = self._plan, ShardCluster(self._plan, self._number)
        served = ServedFile(Path(plan.file) if plan.file else None, plan.name, plan.journal or None)
        host, description = find_host(served, cluster)
        tenure = Tenure(cast("Journal", host.journal), shard_name(self._number), plan.lease)
        await tenure.begin()
        log.info("%s of %d serves %s", shard_name(self._number), plan.count, description)
        async with trio.open_nursery() as nursery:  # noqa: TID251 - it is the root of this thread
            nursery.start_soon(self._watch, tenure)
            await self._host(host)
            nursery.cancel_scope.cancel()
        await tenure.end()

    async def _host(self, host: Host) -> None:
        """Serve until the shard is told to end."""
        address, node = _here()
        async with host.serving(0, address, proxies=EVERYBODY) as serving:
            port = int(serving.url.rpartition(":")[2])
            self._place = ShardPlace(address, port, self._plan.version(), self._plan.count, node, os.getpid())
            self._known.set()
            await cast("trio.Event", self._bell).wait()
            self._place = None

    async def _watch(self, tenure: Tenure) -> None:
        """End the process if another one is this shard now."""
        await tenure.lost()
        log.error("another process is %s now: this one ends", shard_name(self._number))
        os._exit(1)


def _here() -> tuple[str, str]:
    """Return the address of this machine, and its id in Ray."""
    ray = import_module("ray")
    context = cast("RayContext", ray.get_runtime_context())
    return str(import_module("ray.util").get_node_ip_address()), context.get_node_id()

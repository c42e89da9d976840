"""`ShardActor`: a shard: an actor of Ray, in whose process a thread runs a host on Trio.

Ray has the main thread. When the host ends without having been told so, the process ends, and Ray makes a new one.
Beside its own host the process has a `StandIn` for the next shard, and watches whether its machine is drained. Either
host is a `ServedShard`, whose `Tenure` says whether it is still the one of its name.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final, cast

import msgspec
import trio

from agentrail.cluster import ray_actors
from agentrail.cluster.ray_actors import ActorDeadError, NoAnswerError, in_thread
from agentrail.cluster.shard_cluster import ShardCluster
from agentrail.cluster.shard_plan import ShardAddress, ShardPlan, read_plan, shard_name
from agentrail.errors import AgentrailError, JournalUnavailable
from agentrail.host.host_server import Host
from agentrail.host.served_file import ServedFile, find_host
from agentrail.ports.journal import Claim, Journal, Lease
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.untrusted_calls import Contained, tell
from agentrail.values.untrusted_values import described

log = logging.getLogger("agentrail.cluster")

WAIT_SECONDS: Final = 2.0
"""How long callers wait until this process has noticed that the shard is dead."""

START_SECONDS: Final = 60.0
"""How long the shard that is watched may take to start."""

ANSWER_SECONDS: Final = 90.0
"""How long a call may take that tells of the end of a shard: longer than it waits there."""

BACK_SECONDS: Final = 5.0
"""How long calls of tools that cannot be repeated may hold up a shard that is back."""

PAUSE: Final = 0.5


class StandIn:
    """The shard after *number* in *plan*: this process watches it, and serves it while it has no process.

    A new process takes seconds to start, as it imports Ray and agentrail; this one has done so. Name and address of the
    shard are those that it had, so the fence of the journal keeps out the dead one, should it live.
    """

    def __init__(self, plan: ShardPlan, number: int) -> None:
        self._plan = plan
        self._number = (number + 1) % plan.count
        self._version = ""
        self._is_needed = threading.Event()
        self._is_back = False
        self._is_ending = False
        self._shard: ServedShard | None = None

    # From any thread

    def where(self) -> bytes:
        """Return the `ShardAddress` of the shard here; wait a moment for it, and return nothing if it is not here."""
        self._is_needed.wait(WAIT_SECONDS)
        shard = self._shard
        return b"" if shard is None else shard.where(WAIT_SECONDS)

    def give_back(self) -> None:
        """Park the sessions of the shard, and return when that is done: its own process is there again."""
        self._is_back = True
        shard = self._shard
        if shard is not None:
            shard.drain()

    def end(self) -> None:
        """Do the same, because this process ends, and stand in no more."""
        self._is_ending = True
        self.give_back()

    # On Trio

    async def run(self) -> None:
        """Watch the shard, and serve it whenever its process has gone, unless the shard has ended for good."""

        def log_failure(error: BaseException) -> None:
            tell(log, error, f"{name} was not served here while it has no process; Ray makes it anew")

        name = shard_name(self._number)
        # not before: Ray makes no actor anew whose constructor fails, as this does where the file is missing
        self._version = await in_thread(self._plan.version)
        while self._plan.count > 1 and not self._is_ending:
            with suppress(NoAnswerError):
                await in_thread(partial(ray_actors.ask, name, "where", START_SECONDS))
                self._is_back = False
                if await self._is_gone(name):
                    with Contained(log_failure):
                        await self._serve()
            await trio.sleep(PAUSE)

    async def _is_gone(self, name: str) -> bool:
        """Wait for the end of the process; return whether the shard has not ended for good, and is not there again."""
        try:
            while not await in_thread(partial(ray_actors.ask, name, "is_over", ANSWER_SECONDS)):
                pass
        except ActorDeadError:
            return not self._is_back
        return False

    async def _serve(self) -> None:
        if await in_thread(self._plan.version) != self._version:
            log.warning("%s is not served here: the file is no longer what this process runs", shard_name(self._number))
            return
        self._shard = shard = ServedShard(self._plan, self._number, lambda: None)
        if self._is_back or self._is_ending:  # by now
            shard.end()
        self._is_needed.set()
        try:
            await shard.serve(trio.lowlevel.checkpoint)
        finally:
            self._is_needed.clear()
            self._shard = None


async def end_stand_in(plan: ShardPlan, name: str) -> None:
    """Have the sessions of the shard *name* parked where another one stands in for it. No-op if none does."""
    with suppress(NoAnswerError):
        await in_thread(partial(ray_actors.ask, plan.stand_in(name), "give_back", BACK_SECONDS))


LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at which machines are drained."""

WHERE_SECONDS: Final = 2.0

LAST_MS: Final = 10_000
"""Milliseconds before the end of its machine, in which a shard waits for no other one."""


async def until_turn(plan: ShardPlan, name: str) -> None:
    """Wait until this machine is drained, there is another one, and the shard that stands in for *name* is there.

    The last one also waits for the first, for which it stands in: so the first leaves first.
    """
    number = plan.names.index(name)
    earlier_shards = plan.names[number - 1 : number] if number else ()
    if number == plan.count - 1 and number:
        earlier_shards += plan.names[:1]

    is_told = False

    def log_failure(error: BaseException) -> None:
        nonlocal is_told
        if not is_told:
            tell(log, error, "it is not known whether this machine is drained; Ray is asked again")
        is_told = True

    while True:
        with Contained(log_failure):
            if await in_thread(partial(_is_turn, earlier_shards, Clock().now_ms())):
                return
            is_told = False
        await trio.sleep(LOOK_SECONDS)


def _is_turn(earlier_shards: Sequence[str], now_ms: int) -> bool:
    machine = ray_actors.own_machine()
    end = ray_actors.drained_machines().get(machine)
    if end is None or not ray_actors.machines():
        return False
    if end and end - now_ms < LAST_MS:
        return True
    try:
        return all(ray_actors.where(name, WHERE_SECONDS).node != machine for name in earlier_shards)
    except NoAnswerError:
        return False


BEGIN_SECONDS: Final = 30.0
"""How long callers wait for a shard that begins."""

FAILED_SECONDS: Final = 3.0
"""How long a shard that cannot begin tells why, before its process ends and Ray makes another."""

WATCH_SECONDS: Final = 30.0
"""How long a call waits that tells of the end of the shard: none waits for ever for a caller that is gone."""


class ShardActor:
    """The shard *number* of a plan; it also stands in for the next one, whenever that one is dead.

    It has no coroutine: Ray would run all methods in one event loop, and each that waits would hold up the others.
    """

    def __init__(self, number: int, plan: bytes) -> None:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
        self._plan = read_plan(plan)
        self._shard = ServedShard(self._plan, number, partial(os._exit, 1))
        self._stand_in = StandIn(self._plan, number)
        self._is_over = threading.Event()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._terminate)
        threading.Thread(target=self._run, name="agentrail", daemon=True).start()

    # For callers, by way of Ray

    def where(self) -> bytes:
        """Return the `ShardAddress`, when the host serves; raise an error that says why it does not."""
        address = self._shard.where(BEGIN_SECONDS)
        if not address:
            raise RuntimeError(self._shard.problem)
        return address

    def drain(self) -> None:
        """Park all sessions, and return when that is done; the process waits for its end, and another follows."""
        self._shard.end()
        self._stand_in.end()
        self._shard.drain()

    def end(self) -> None:
        """Do the same, but no process follows, and nobody is to stand in."""
        self._is_over.set()
        self.drain()

    def is_over(self) -> bool:
        """Wait a while, and return whether the shard has ended for good; who watches it gets an error if it dies."""
        return self._is_over.wait(WATCH_SECONDS)

    # The same for the shard after this one

    def where_instead(self) -> bytes:
        """Return the `ShardAddress` of the shard for which this one stands in, after a moment; nothing if for none."""
        return self._stand_in.where()

    def give_back(self) -> None:
        """Park the sessions of the shard for which this one stands in, and return when that is done."""
        self._stand_in.give_back()

    # The process

    def _terminate(self, *_: object) -> None:
        """Park all sessions, then end the process: Ray makes a new one, here or elsewhere."""
        threading.Thread(target=self._end_process, name="agentrail-end", daemon=True).start()

    def _end_process(self) -> None:
        self.drain()
        os._exit(0)

    def _run(self) -> None:
        try:
            trio.run(_serve, self._shard, self._stand_in, self._plan, self._terminate)
        except BaseException as error:  # noqa: ASYNC103 - no event loop runs here, and the process ends
            log.exception("the shard ends")
            if not self._shard.has_served and not self._shard.is_ending:
                self._shard.fail(described(error))
                time.sleep(FAILED_SECONDS)
            os._exit(1)
        if not self._shard.is_ending:
            os._exit(1)


async def _serve(shard: ServedShard, stand_in: StandIn, plan: ShardPlan, leave: Callable[[], None]) -> None:
    async with trio.open_nursery() as nursery:  # noqa: TID251 - it is the root of this thread
        nursery.start_soon(stand_in.run)
        nursery.start_soon(_watch_machine, shard, plan, leave)
        await shard.serve(partial(end_stand_in, plan, shard.name))
        await in_thread(stand_in.end)  # it parks its sessions, too
        nursery.cancel_scope.cancel()


async def _watch_machine(shard: ServedShard, plan: ShardPlan, leave: Callable[[], None]) -> None:
    """Have the process end as soon as the shard is to leave a machine that Ray drains."""
    await until_turn(plan, shard.name)
    log.info("%s leaves its machine, which Ray drains", shard.name)
    leave()


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
        """Whether its address was known once."""
        self.problem = BEGINS
        """Why it does not serve, if it does not."""
        self._plan = plan
        self._number = number
        self._when_lost = when_lost
        self._address: ShardAddress | None = None
        self._answer_ready = threading.Event()
        self._end_requested = threading.Event()
        self._over = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._wakeup: trio.Event | None = None

    @property
    def is_ending(self) -> bool:
        """Whether it was told to end."""
        return self._end_requested.is_set()

    # From any thread

    def where(self, seconds: float) -> bytes:
        """Return the `ShardAddress`, when the host serves; nothing if it does not within so many seconds, or ends."""
        self._answer_ready.wait(seconds)
        address = self._address
        return b"" if address is None else msgspec.json.encode(address)

    def fail(self, problem: str) -> None:
        """Tell those who ask where it is that there is a *problem*."""
        self.problem = problem
        self._answer_ready.set()

    def end(self) -> None:
        """Have all sessions parked, and `serve` return."""
        self._end_requested.set()
        self._address = None
        self.fail(ENDS)
        if self._token is not None and self._wakeup is not None:
            try:
                self._token.run_sync_soon(self._wakeup.set)
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
            self._wakeup, self._token = trio.Event(), trio.lowlevel.current_trio_token()
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
                self._address = ShardAddress(address, port, self._plan.version(), self._plan.count, node, os.getpid())
                self.has_served = True
                self._answer_ready.set()
            await cast("trio.Event", self._wakeup).wait()
            self._address = None

    async def _watch(self, tenure: Tenure, scope: trio.CancelScope) -> None:
        """End if another process has the name now."""
        await tenure.lost()
        log.error("another process is %s now: this one ends", self.name)
        self._when_lost()
        scope.cancel()

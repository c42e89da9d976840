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
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from agentrail.cluster.drain import until_turn
from agentrail.cluster.ray_actors import in_thread
from agentrail.cluster.served_shard import ServedShard
from agentrail.cluster.shard_plan import ShardPlan, read_plan
from agentrail.cluster.stand_in import StandIn, end_stand_in
from agentrail.values.untrusted_values import described

log = logging.getLogger("agentrail.cluster")

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
        """Return the `ShardPlace`, when the host serves; raise an error that says why it does not."""
        place = self._shard.where(BEGIN_SECONDS)
        if not place:
            raise RuntimeError(self._shard.problem)
        return place

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
        """Return the `ShardPlace` of the shard for which this one stands in, after a moment; nothing if for none."""
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

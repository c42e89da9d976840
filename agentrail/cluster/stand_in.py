"""`StandIn`: serves a shard whose process is gone, in the process of another one, until Ray has made it anew.

A new process takes seconds to start, as it imports Ray and agentrail; one that runs has done so.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from agentrail.cluster import ray_actors
from agentrail.cluster.ray_actors import ActorDeadError, NoAnswerError, in_thread
from agentrail.cluster.served_shard import ServedShard
from agentrail.cluster.shard_plan import ShardPlan, shard_name
from agentrail.runtime.shared.untrusted_calls import Contained, tell

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

    Its name and its address are those that it had. So the fence of the journal keeps out the dead one, should it live.
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
        """Return the `ShardPlace` of the shard here; wait a moment for it, and return nothing if it is not here."""
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

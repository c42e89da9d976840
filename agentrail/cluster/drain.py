"""`until_turn`: when a shard is to leave its machine, because an operator or a cloud has told Ray to drain it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from agentrail.cluster import ray_actors
from agentrail.cluster.ray_actors import NoAnswerError, in_thread
from agentrail.cluster.shard_plan import ShardPlan
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.untrusted_calls import Contained, tell

log = logging.getLogger("agentrail.cluster")

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at which machines are drained."""

ANSWER_SECONDS: Final = 2.0

LAST_MS: Final = 10_000
"""Milliseconds before the end of its machine, in which a shard waits for no other one."""


async def until_turn(plan: ShardPlan, name: str) -> None:
    """Wait until this machine is drained, there is another one, and the shard that stands in for *name* is there.

    The last one also waits for the first, for which it stands in: so the first leaves first.
    """
    number = plan.names.index(name)
    before = plan.names[number - 1 : number] if number else ()
    if number == plan.count - 1 and number:
        before += plan.names[:1]

    is_told = False

    def log_failure(error: BaseException) -> None:
        nonlocal is_told
        if not is_told:
            tell(log, error, "it is not known whether this machine is drained; Ray is asked again")
        is_told = True

    while True:
        with Contained(log_failure):
            if await in_thread(partial(_is_turn, before, Clock().now_ms())):
                return
            is_told = False
        await trio.sleep(LOOK_SECONDS)


def _is_turn(before: Sequence[str], now_ms: int) -> bool:
    own = ray_actors.own_machine()
    end = ray_actors.drained_machines().get(own)
    if end is None or not ray_actors.machines():
        return False
    if end and end - now_ms < LAST_MS:
        return True
    try:
        return all(ray_actors.where(name, ANSWER_SECONDS).node != own for name in before)
    except NoAnswerError:
        return False

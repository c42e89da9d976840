"""`TaskPush`: tells one receiver how a task stands, whenever that changes, until the task is over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, cast

import trio

from agentrail.a2a.a2a_errors import NO_TASK, a2a_error_of
from agentrail.a2a.older_shapes import task_03
from agentrail.a2a.push_config import PushConfig
from agentrail.a2a.shapes import TaskName
from agentrail.a2a.task_calls import Outcome, TaskCalls, is_over
from agentrail.errors import AgentrailError, HostClosing
from agentrail.host import Webhooks
from agentrail.models import JsonObject

PAUSE: Final = 30.0
"""Seconds after which a task is looked at again that could not be: its journal or its host may come back."""

MOST_FAILURES: Final = 20
"""How often in a row a task may be impossible to look at, before its client is told no more."""


class TaskPush:
    """Follows one task for one configuration.

    What is sent is the task as it stands, never a piece of it: so a receiver that is slow, or was away for a while,
    misses states on the way, and has all at the end.
    """

    def __init__(self, webhooks: Webhooks, tenant: str, tasks: TaskCalls, task: TaskName, config: PushConfig) -> None:
        self._webhooks = webhooks
        self._tenant = tenant
        self._tasks = tasks
        self._task = task
        self._config = config
        self._told = ""
        """What was sent last."""
        self._failures = 0
        """How often in a row the task could not be looked at."""

    async def run(self) -> None:
        """Body of the task that follows; it ends with the task, the session or the host."""
        while self._failures < MOST_FAILURES:
            try:
                await self._follow()
            except HostClosing:
                return
            except AgentrailError as error:
                if a2a_error_of(error).code == NO_TASK or error.code == "session-not-alive":
                    return
            else:
                return
            self._failures += 1
            await trio.sleep(PAUSE)

    async def _follow(self) -> None:
        while True:
            outcome = await self._tasks.outcome(self._task, wait=True)
            self._failures = 0
            await self._tell(outcome)
            if is_over(outcome):
                return
            await self._wait_change(outcome)

    async def _wait_change(self, previous: Outcome) -> None:
        """Wait until other calls wait than in *previous*; if the task is at work again, tell that."""
        async with self._tasks.calls.events(self._task.session) as events:
            outcome = await self._tasks.outcome(self._task)
            while not is_over(outcome) and _held_ids(outcome) == _held_ids(previous):
                if await anext(events, None) is None:  # the session was parked, or is at another host now
                    await trio.sleep(PAUSE)
                    return
                outcome = await self._tasks.outcome(self._task)
        if not is_over(outcome):
            await self._tell(outcome)

    async def _tell(self, outcome: Outcome) -> None:
        """Send the task, unless it stands as it did."""
        shape = await self._tasks.shape(self._task, outcome, 0)
        text = json.dumps(task_03(shape) if self._config.is_older else {"task": shape})
        if text == self._told:
            return
        self._told = text
        config = self._config
        await self._webhooks.send(config.url, text.encode(), self._tenant, headers=config.headers)


def _held_ids(outcome: Outcome) -> Sequence[object]:
    if isinstance(outcome, AgentrailError):
        return ()
    return [held_call["id"] for held_call in cast("Sequence[JsonObject]", outcome["held"])]

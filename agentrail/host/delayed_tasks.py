"""`DelayedTasks`: starts a task beside another, such as a watch on its client, only if the other takes longer."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from agentrail.runtime.shared.untrusted_calls import Contained, tell

log = logging.getLogger("agentrail.host")

SOON: Final = 0.05
"""Seconds after which a delayed task begins.

Most answers take less, and a nursery with a task costs as much as to send an answer.
"""


class DelayedTasks:
    """Starts all delayed tasks from one task: a timer for each would cost as much as the delayed task itself."""

    def __init__(self) -> None:
        self._waiting: dict[_LateTask, None] = {}
        """Tasks that have not begun, the oldest first."""
        self._has_waiting = trio.Event()

    async def run(self) -> None:
        """Body of the task that starts the delayed tasks, which end with it."""
        async with trio.open_nursery() as nursery:  # noqa: TID251 - each task ends with the work that it runs beside
            while True:
                while (first := next(iter(self._waiting), None)) is not None:
                    if trio.current_time() < first.due:
                        await trio.sleep_until(first.due)
                    else:
                        del self._waiting[first]
                        first.begin(nursery)
                self._has_waiting = trio.Event()
                await self._has_waiting.wait()

    @asynccontextmanager
    async def beside(self, work: Callable[[], Awaitable[None]]) -> AsyncGenerator[None, None]:
        """Run *work* if the `async with` takes longer than `SOON`; leaving it cancels *work*, and waits for its end."""
        task = _LateTask(work)
        self._waiting[task] = None
        self._has_waiting.set()
        try:
            yield
        finally:
            if task.has_begun:
                await task.cancel()  # noqa: ASYNC102 - it shields itself
            else:
                del self._waiting[task]


class _LateTask:
    """A task that begins when it is due, unless it was cancelled before."""

    __slots__ = ("_ended", "_scope", "_work", "due", "has_begun")

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self.due = trio.current_time() + SOON
        """When it begins, in the time of Trio."""
        self.has_begun = False

    def begin(self, nursery: trio.Nursery) -> None:
        """Run the work in *nursery*."""
        self.has_begun = True
        nursery.start_soon(self._run)

    async def _run(self) -> None:
        try:
            with self._scope, Contained(_log_failure):
                await self._work()
        finally:
            self._ended.set()

    async def cancel(self) -> None:
        """Cancel the work, and wait for its end."""
        self._scope.cancel()
        # Shielded: the work may read from a connection, which nobody else can read from before it has ended.
        with trio.CancelScope(shield=True):
            await self._ended.wait()


def _log_failure(error: BaseException) -> None:
    tell(log, error, "a task beside an answer failed", words=False)

"""`DelayedTasks`: starts a task beside another, such as a watch on its client, only if the other takes longer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
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

    def beside(self, work: Callable[[], Awaitable[None]]) -> _LateTask:
        """Run *work* if the `async with` takes longer than `SOON`; leaving it cancels *work*, and waits for its end."""
        return _LateTask(work, self)

    def add(self, task: _LateTask) -> None:
        """Begin *task* when it is due."""
        self._waiting[task] = None
        if len(self._waiting) == 1:
            self._has_waiting.set()

    def remove(self, task: _LateTask) -> None:
        """Do not begin *task*."""
        del self._waiting[task]


class _LateTask:
    """The `async with` of `DelayedTasks.beside`; a context manager of a generator would cost twice as much."""

    __slots__ = ("_running", "_tasks", "_work", "due")

    def __init__(self, work: Callable[[], Awaitable[None]], tasks: DelayedTasks) -> None:
        self._work = work
        self._tasks = tasks
        self._running: tuple[trio.CancelScope, trio.Event] | None = None
        """What cancels the work, and is set when that has ended; `None` as long as it has not begun."""
        self.due = trio.current_time() + SOON
        """When it begins, in the time of Trio."""

    async def __aenter__(self) -> None:
        self._tasks.add(self)

    async def __aexit__(self, *_: object) -> None:
        if self._running is None:
            self._tasks.remove(self)
            return
        scope, ended = self._running
        scope.cancel()
        # Shielded: the work may read from a connection, which nobody else can read from before it has ended.
        with trio.CancelScope(shield=True):
            await ended.wait()

    def begin(self, nursery: trio.Nursery) -> None:
        """Run the work in *nursery*."""
        self._running = trio.CancelScope(), trio.Event()
        nursery.start_soon(self._run, *self._running)

    async def _run(self, scope: trio.CancelScope, ended: trio.Event) -> None:
        try:
            with scope, Contained(_log_failure):
                await self._work()
        finally:
            ended.set()


def _log_failure(error: BaseException) -> None:
    tell(log, error, "a task beside an answer failed", words=False)

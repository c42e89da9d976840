"""Tasks that run requests and tool calls, one after the other, each under the cancel scope of its task.

A Trio task and its cancel scope cost more than all that a session does for a short tool call. So a task that has ended
its work waits for more. It ends if its work was cancelled, as a cancelled scope stays cancelled. It also ends if the
work raised, or left open what belongs to the task, as an async generator does that is not used up: a cancel scope, a
nursery or a lock. Trio has no way to see that a token of a `trio.CapacityLimiter` was not given back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Container
from contextvars import copy_context
from importlib import import_module
from typing import Final, cast

import trio

from agentrail.reprs import in_brackets, some
from agentrail.runtime.shared.untrusted_calls import Contained

MAX_SPARE: Final = 64
"""How many tasks without work are kept; each takes some 3 kB."""

SPARE: Final = "spare task"
"""Name of a task without work."""

_OWNERS: Final = cast(
    "Container[object]", getattr(import_module("trio._core._parking_lot"), "GLOBAL_PARKING_LOT_BREAKER", ())
)
"""The tasks that hold a lock. Trio has no public name for them; if they are called otherwise one day, this is empty:

tests/runtime/test_task_pool.py::test_work_that_keeps_a_lock_ends_its_task_so_that_nobody_waits_for_it_forever
"""


class Work:
    """Work that runs in a task of a `TaskPool`, and can be cancelled."""

    __slots__ = ("_scope", "cancelled")

    def __init__(self) -> None:
        self.cancelled = False
        # `None` unless the work runs, because the task's scope is used for other work later.
        self._scope: trio.CancelScope | None = None

    def cancel(self) -> None:
        """Cancel the work; if it has not begun, at its first checkpoint. No-op if it is cancelled already.

        Trio notes who cancels, and when, each time; an abort comes here three times.
        """
        if self.cancelled:
            return
        self.cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    def raised(self, error: BaseException) -> None:
        """Keep the exception that the work raised."""
        raise NotImplementedError

    async def stopped(self) -> None:
        """Wait for what is left of cancelled work; called outside of the cancelled scope. No-op: nothing is left."""

    def over(self) -> None:
        """Report the end of the work; called exactly once, also after a cancellation."""
        raise NotImplementedError

    def begin(self, scope: trio.CancelScope) -> None:
        """Called by the pool: the work runs under *scope*."""
        self._scope = scope
        if self.cancelled:
            scope.cancel()

    def finish(self) -> None:
        """Called by the pool: the work has ended."""
        self._scope = None
        self.over()


class _PoolTask:
    """A task of the pool, with its cancel scope and its current work."""

    __slots__ = ("body", "scope", "task", "work")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        # Set only while the task waits for work: the task refers to this object, so this would be a reference cycle.
        self.task: trio.lowlevel.Task | None = None
        self.work: Work | None = None
        self.body: Callable[[], Awaitable[None]] | None = None

    def take(self, work: Work, body: Callable[[], Awaitable[None]]) -> None:
        """Accept the next work of the task."""
        self.work, self.body = work, body
        work.begin(self.scope)

    def raised(self, error: BaseException) -> None:
        """Pass on what the work raised, or what its task raises as a scope of the work is still open.

        Without work, it is an error of `Work.over`: nobody was told of the end, so it must not be kept here.
        """
        if self.work is None:
            raise error
        self.work.raised(error)

    async def run(self) -> None:
        """Run the work that was taken."""
        if self.body is not None:
            await self.body()

    def end(self) -> None:
        """Drop the work. No-op if there is none."""
        work, self.work, self.body = self.work, None, None
        if work is not None:
            work.finish()


def _innermost_scope() -> object:
    """Return what Trio keeps of the innermost cancel scope of the current task.

    Trio has no public name for it. If it is called otherwise one day, open scopes are not noticed any more:
    tests/runtime/test_task_pool.py::test_work_that_leaves_a_scope_open_fails_and_ends_its_task
    """
    return getattr(trio.lowlevel.current_task(), "_cancel_status", None)


def _is_clean(innermost: object) -> bool:
    """Return whether the work has left nothing open in the current task, whose innermost scope was *innermost*."""
    task = trio.lowlevel.current_task()
    return _innermost_scope() is innermost and task not in _OWNERS and not task.child_nurseries


class TaskPool:
    """The tasks of a supervisor that run requests and tool calls."""

    __slots__ = ("_blank", "_nursery", "_spare")

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._spare: deque[_PoolTask] = deque()
        self._blank = copy_context()

    @in_brackets
    def __repr__(self) -> str:
        return some(len(self._spare), SPARE) or "empty"

    def start(self, work: Work, body: Callable[[], Awaitable[None]], name: str) -> None:
        """Run *body*, which is the work, in a task called *name*, with a copy of the caller's context variables."""
        if not self._spare:
            pool_task = _PoolTask()
            pool_task.take(work, body)
            self._nursery.start_soon(self._live, pool_task, name=name)
            return
        pool_task = self._spare.popleft()
        task, pool_task.task = pool_task.task, None
        if task is not None:
            task.name, task.context = name, copy_context()
            trio.lowlevel.reschedule(task)
        pool_task.take(work, body)  # not before: work that was cancelled already would end the wait, and call `leave`

    async def _live(self, pool_task: _PoolTask) -> None:
        """Body of a task: run work until some is cancelled or fails, or until enough other tasks are spare."""
        try:
            with Contained(pool_task.raised), pool_task.scope:
                innermost = _innermost_scope()
                while pool_task.work is not None:
                    await pool_task.run()
                    if pool_task.work.cancelled or not _is_clean(innermost):
                        break
                    pool_task.end()
                    if len(self._spare) < MAX_SPARE:
                        await self._wait(pool_task)
            if pool_task.work is not None and pool_task.work.cancelled:
                await pool_task.work.stopped()
        finally:
            pool_task.end()

    async def _wait(self, pool_task: _PoolTask) -> None:
        """Wait for the next work of *pool_task*."""
        pool_task.task = task = trio.lowlevel.current_task()
        task.name, task.context = SPARE, self._blank  # nothing of the work is held
        self._spare.append(pool_task)

        def leave(_: object) -> trio.lowlevel.Abort:
            """Forget the waiting task: called by Trio when it is cancelled."""
            pool_task.task = None
            self._spare.remove(pool_task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

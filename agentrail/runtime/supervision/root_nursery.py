"""The root nursery of a supervisor, which can be left even if a task in it never ends.

Trio does not leave a nursery while a task runs in it. So this nursery belongs to a Trio system task, not to the task
that opened the supervisor, which waits only for a limited time. Tasks left behind go on. `trio.run` waits for them at
its end, as nothing but the end of the process stops a task that ignores cancellation.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import Final, TypeVar, cast

import trio

from agentrail.errors import SupervisorClosed
from agentrail.runtime.diagnosis.stacks import (
    ROOT_TASK,
    called,
    foreign_position_of,
    position_of,
    tasks_in,
    threads_among,
)
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.shared.untrusted_calls import traced

log = logging.getLogger("agentrail.supervisor")

T = TypeVar("T")

THE_END: Final = "the end of the supervisor"

LAST_PASSES: Final = 100
"""Passes of the loop in which tasks that were cancelled may still end when the time is over."""

LEFT_AFTER: Final = 5.0
"""Seconds that a cancelled caller waits for a journal that does not answer; then its call goes on without it."""


class RootNursery:
    """Holds the root nursery open until the supervisor is left; cancels *body* if the nursery fails."""

    def __init__(self, body: trio.CancelScope) -> None:
        self.error: BaseException | None = None
        self.nursery: trio.Nursery
        self._body = body
        self._end: Callable[[], Awaitable[None]] = _nothing
        # `_end` runs while the nursery around it is cancelled: without a shield it would be cancelled at once.
        # tests/runtime/test_shutdown.py::test_if_the_roof_comes_down_the_body_ends_and_the_sessions_are_stopped
        self._ending = trio.CancelScope(shield=True)
        self._has_ended = False
        self._left = False
        self._opened, self._told, self._over = trio.Event(), trio.Event(), trio.Event()
        self._task: trio.lowlevel.Task

    async def open(self) -> trio.Nursery:
        """Start the system task and return its nursery."""
        self._task = trio.lowlevel.spawn_system_task(self._stand, name=ROOT_TASK, context=copy_context())
        # Shielded: a caller that is cancelled here would leave a nursery open that no task closes:
        # tests/runtime/test_cut_anywhere.py::test_a_supervisor_that_is_opened_and_left
        with trio.CancelScope(shield=True):
            await self._opened.wait()
        return self.nursery

    async def _stand(self) -> None:
        """Body of the system task: hold the nursery open, then end what runs in it.

        The nursery is shielded. A cancellation from outside reaches the supervisor's body first, so that sessions are
        stopped in order and within their time limits.
        """
        # At the end of the run Trio cancels all tasks of the system at once:
        # tests/runtime/test_shutdown.py::test_a_run_that_ends_stops_the_sessions_of_a_task_of_the_system_one_after_the_other  # noqa: E501
        try:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:  # noqa: TID251 - the one root nursery
                    self.nursery = nursery
                    self._opened.set()
                    try:
                        await self._told.wait()
                    finally:
                        self._body.cancel()
                        with self._ending:
                            await self._told.wait()  # noqa: ASYNC102 - it ends within its time
                            await self._end()  # noqa: ASYNC102 - it ends within its time
                        self._has_ended = True
                        nursery.cancel_scope.cancel()
        except BaseException as error:  # noqa: BLE001, ASYNC103 - it is raised where the supervisor is left; here it would end the run
            self.error = alone(error)
            if self._left:
                log.error("what a supervisor has left behind broke: %s", traced(self.error))
        finally:
            self._over.set()

    async def leave(
        self,
        patience: trio.CancelScope,
        last: Callable[[], float],
        end: Callable[[], Awaitable[None]] | None,
        cut: Callable[[], None] | None,
    ) -> bool:
        """Have *end* run, and call *cut* if the scope *patience* is over before all tasks have ended.

        Return whether all tasks have ended, at the latest *last()* seconds and `LAST_PASSES` after that.
        """
        self._end = end or _nothing
        self._told.set()
        with patience:
            await self._over.wait()
        if not self._over.is_set():
            if cut is not None:
                cut()
            self._ending.cancel()
            self.nursery.cancel_scope.cancel()
            # Shielded: a cancelled caller must not return before it is known whether all tasks have ended:
            # tests/runtime/test_stuck.py::test_whatever_does_not_heed_its_cancellation_is_left_and_named
            with trio.move_on_after(last(), shield=True):
                await self._over.wait()
            # What heeds its cancellation ends within a few passes of the loop, however late it is:
            # tests/runtime/test_stuck.py::test_without_any_time_only_what_does_not_heed_its_cancellation_is_named
            for _ in range(LAST_PASSES):
                if self._over.is_set():
                    break
                await trio.lowlevel.cancel_shielded_checkpoint()
        self._left = not self._over.is_set()
        return not self._left

    def unfinished(self, threads: Mapping[int, str]) -> tuple[str, ...]:
        """Return the tasks that have not ended, and threads: those that tasks wait for, and those in *threads*.

        Each is described in words, with the place in the source where it is. Tasks in which code of agentrail alone
        waits are left out if there is anything else: they wait for that.
        """
        tasks = {task: f"task `{called(task)}`" for task in tasks_in(self.nursery)}
        if not self._has_ended:
            tasks[self._task] = THE_END
        names = {task.name for task in (*tasks, self._task)}
        foreign = [
            f"{what} at {position}"
            for task, what in tasks.items()
            if (position := foreign_position_of(task)) is not None
        ]
        foreign += [f"thread `{name}` at {position}" for name, position in threads_among(names, threads)]
        return tuple(foreign or [f"{what} at {position_of(task)}" for task, what in tasks.items()])


async def leavable(nursery: trio.Nursery, name: str, work: Callable[[], Awaitable[T]]) -> T:
    """Await *work* in a task of its own; a cancelled caller waits `LEFT_AFTER` seconds for it, and then leaves it.

    The task is in the root nursery, so the supervisor names it if it never ends.
    """
    ended: Slot[T | Exception | None] = Slot()
    scope = trio.CancelScope()

    async def run() -> None:
        outcome: T | Exception | None = None
        try:
            with scope:
                outcome = await work()
        except Exception as error:  # noqa: BLE001 - the caller gets it
            outcome = error
        finally:
            ended.settle(outcome)

    nursery.start_soon(run, name=name)
    try:
        outcome = await ended.wait()
    except trio.Cancelled:
        scope.cancel()
        # Shielded: a caller that goes on knows what the journal holds, unless the journal never answers:
        # tests/runtime/test_stuck.py::test_a_body_that_waits_for_a_journal_that_never_answers_is_left
        with trio.move_on_after(LEFT_AFTER, shield=True):
            await ended.wait()
        raise
    if isinstance(outcome, Exception):
        raise outcome
    if outcome is None:
        raise SupervisorClosed(name)
    return outcome


async def _nothing() -> None:
    await trio.lowlevel.checkpoint()


def alone(error: BaseException) -> BaseException:
    """Return the single exception in *group*, or *group* if it holds several."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return group if len(group.exceptions) > 1 else next(iter(group.exceptions))

"""`Slot`: a place for one value, for which tasks wait.

To settle a slot never raises or blocks, even if the tasks are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

import trio

from agentrail.reprs import in_brackets

T = TypeVar("T")


class Slot(Generic[T]):
    """A place for one value, for which tasks may wait."""

    __slots__ = ("_call", "_tasks", "_value", "settled")

    def __init__(self) -> None:
        self._call: Callable[[], None] | None = None
        self._tasks: tuple[trio.lowlevel.Task, ...] = ()
        self.settled = False  # whether there is a value
        self._value: T | None = None

    @in_brackets
    def __repr__(self) -> str:
        if self.settled:
            return f"settled with {type(self._value).__name__}"
        return "waited for" if self._tasks else "empty"

    def settle(self, value: T) -> None:
        """Set the value. No-op if there is one."""
        if self.settled:
            return
        self.settled = True
        self._value = value
        tasks, self._tasks = self._tasks, ()
        for task in tasks:
            trio.lowlevel.reschedule(task)
        call, self._call = self._call, None
        if call is not None:
            call()

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call *call*, which never raises, as soon as there is a value: now, or in place of a task that waits."""
        if self.settled:
            call()
        else:
            self._call = call

    async def wait(self) -> T:
        """Wait for the value and return it."""
        if not self.settled:
            task = trio.lowlevel.current_task()
            self._tasks = (*self._tasks, task)
            await trio.lowlevel.wait_task_rescheduled(partial(self._leave, task))
        return self._value  # type: ignore[return-value]  # the event is set, so the value is a T

    async def wait_in_turn(self) -> T:
        """Do as `wait`; if there is a value already, let all other tasks run first.

        For letters that pass no gate: who sends one after the other, each handled at once, would keep the loop.
        """
        if self.settled:
            await trio.lowlevel.cancel_shielded_checkpoint()
        return await self.wait()

    def _leave(self, task: trio.lowlevel.Task, _: object) -> trio.lowlevel.Abort:
        """Forget a waiting task: called by Trio when it is cancelled."""
        self._tasks = tuple([other for other in self._tasks if other is not task])
        return trio.lowlevel.Abort.SUCCEEDED

"""`Slot`, which holds one answer for one waiting task, and `Caller`, who gives the command.

To settle a slot never raises or blocks, even if the task is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

import trio

from agentrail.reprs import in_brackets

T = TypeVar("T")


class Slot(Generic[T]):
    """A place for one value, for which one task may wait."""

    __slots__ = ("_call", "_settled", "_task", "_value")

    def __init__(self) -> None:
        self._call: Callable[[], None] | None = None
        self._task: trio.lowlevel.Task | None = None
        self._settled = False
        self._value: T | None = None

    @in_brackets
    def __repr__(self) -> str:
        if self._settled:
            return f"settled with {type(self._value).__name__}"
        return "empty" if self._task is None else "waited for"

    @property
    def settled(self) -> bool:
        """Whether there is a value."""
        return self._settled

    def settle(self, value: T) -> None:
        """Set the value. No-op if there is one."""
        if self._settled:
            return
        self._settled = True
        self._value = value
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)
        call, self._call = self._call, None
        if call is not None:
            call()

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call *call*, which never raises, as soon as there is a value: now, or in place of a task that waits."""
        if self._settled:
            call()
        else:
            self._call = call

    async def wait(self) -> T:
        """Wait for the value and return it."""
        if not self._settled:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)
        return self._value  # type: ignore[return-value]  # the event is set, so the value is a T

    async def wait_in_turn(self) -> T:
        """Do as `wait`; if there is a value already, let all other tasks run first.

        For letters that pass no gate: who sends one after the other, each handled at once, would keep the loop.
        """
        if self._settled:
            await trio.lowlevel.cancel_shielded_checkpoint()
        return await self.wait()

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        """Forget the waiting task: called by Trio when it is cancelled."""
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


class Caller(NamedTuple):
    """Who gives the commands of a handle, in the words of the program: see `SessionHandle.by`."""

    who: str = ""
    """Who it is; empty if nobody said so."""
    request: str = ""
    """Id of the request that the commands come from; empty if none was given."""
    four_eyes: bool = False
    """Whether decisions about held calls of turns that they asked for are refused."""


NOBODY: Final = Caller()

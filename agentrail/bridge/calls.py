"""`BridgeCall`: one call from outside of Trio, run in a Trio task under a cancel scope of its own.

The answer is kept in the call, and the caller is only woken: a future that carries the answer would lose it when a
cancellation and the answer cross.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Generic, TypeVar, cast

from agentrail.bridge.waiters import AnyWaiter
from agentrail.errors import BridgeClosed
from agentrail.reprs import in_brackets
from agentrail.runtime.shared.task_pool import TaskPool, Work
from agentrail.runtime.shared.turn_waits import FROM_OUTSIDE
from agentrail.runtime.shared.untrusted_calls import split

T = TypeVar("T")


class BridgeCall(Work, Generic[T]):
    """A call: the work to do on Trio, and its answer."""

    __slots__ = ("_context", "_forget", "_waiter", "_work", "error", "has_ended", "has_value", "value")

    def __init__(self, work: Callable[[], Awaitable[T]], context: Context, waiter: AnyWaiter) -> None:
        super().__init__()
        self._work: Callable[[], Awaitable[T]] | None = work
        """What runs in the Trio task; `None` once it has ended, as it may refer to the call."""
        self._context = context
        """The caller's context variables; the task has a copy."""
        self._waiter = waiter
        """Wakes the caller at the end."""
        self._forget: Callable[[BridgeCall[T]], None]
        """Called at the end."""
        self.has_ended = False
        """Whether nothing of the call runs on Trio any more. Set last, so the caller may then read the answer."""
        self.has_value = False
        """Whether the work has returned."""
        self.value: T | None = None
        """What the work returned."""
        self.error: BaseException | None = None
        """What the work raised."""

    @in_brackets
    def __repr__(self) -> str:
        return "returned" if self.has_value else type(self.error).__name__ if self.has_ended else "runs"

    def is_over(self) -> bool:
        """Whether nothing of the call runs on Trio any more."""
        return self.has_ended

    # In the Trio thread

    def start(self, tasks: TaskPool | None, forget: Callable[[BridgeCall[T]], None]) -> None:
        """Run the work in one of the *tasks*; refuse it if there are none any more. *forget* is called at the end."""
        self._forget = forget
        if tasks is None or self.cancelled:
            self.over()
        else:
            self._context.run(tasks.start, self, self._run, FROM_OUTSIDE)

    async def _run(self) -> None:
        """Do the work, and keep what it returns or raises."""
        if self._work is None:
            return
        try:
            self.value = await self._work()
            self.has_value = True
        except BaseException as raised:  # noqa: BLE001, ASYNC103 - the caller gets it
            # A cancellation stays on Trio: if the caller did not ask for it, the supervisor is being left.
            passing, self.error = split(raised)
            if passing is not None:
                try:
                    raise passing from None  # noqa: ASYNC104 - it is what was caught, without the errors beside it
                finally:
                    del passing  # breaks a reference cycle: its traceback holds this frame

    def raised(self, error: BaseException) -> None:
        """Keep what the task raises because the work has left something open in it."""
        self.error = error

    def over(self) -> None:
        """Wake the caller: nothing of the call runs any more. One that was cut off by the end of all gets its error."""
        if self.has_ended:
            return
        self._forget(self)
        self._work = None
        if self.error is None and not self.has_value:
            self.error = BridgeClosed()
        self.has_ended = True
        self._waiter.notify()

    # In the thread of the caller

    def answer(self) -> T:
        """Return what the work returned, or raise what it raised; called once, after the end."""
        error, self.error = self.error, None
        if error is None:
            return cast("T", self.value)
        try:
            raise error
        finally:
            del error  # breaks a reference cycle: its traceback holds this frame

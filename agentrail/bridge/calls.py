"""`BridgeCall`: one call from outside of Trio, run as a Trio task in a cancel scope of its own.

The answer is kept in the call, and the caller is only woken: a future that carries the answer would lose it when a
cancellation and the answer cross.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from typing import Generic, TypeVar, cast

import trio

from agentrail.bridge.waiters import AnyWaiter
from agentrail.errors import BridgeClosed
from agentrail.reprs import in_brackets
from agentrail.runtime.shared.own_turn import FROM_OUTSIDE
from agentrail.runtime.shared.untrusted_calls import split

T = TypeVar("T")


class BridgeCall(Generic[T]):
    """A call: the work to do on Trio, and its answer."""

    __slots__ = ("_context", "_forget", "_scope", "_waiter", "_work", "error", "has_ended", "has_value", "value")

    def __init__(self, work: Callable[[], Awaitable[T]], context: Context, waiter: AnyWaiter) -> None:
        self._work = work
        """What runs in the Trio task."""
        self._context = context
        """The caller's context variables; the task has a copy."""
        self._waiter = waiter
        """Wakes the caller at the end."""
        self._scope = trio.CancelScope()
        """Cancelled if the caller is."""
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
        state = "returned" if self.has_value else type(self.error).__name__ if self.has_ended else "runs"
        return f"{getattr(self._work, '__qualname__', 'work')!r} {state}"

    def over(self) -> bool:
        """Whether nothing of the call runs on Trio any more."""
        return self.has_ended

    def begin(self, nursery: trio.Nursery | None, forget: Callable[[BridgeCall[T]], None]) -> None:
        """Start the task in *nursery*; refuse the call if there is none any more. Runs in the Trio thread.

        *forget* is called at the end.
        """
        self._forget = forget
        if nursery is None or self._scope.cancel_called:
            self._end(BridgeClosed())
        else:
            self._context.run(partial(nursery.start_soon, self._run, name=FROM_OUTSIDE))

    def cancel(self) -> None:
        """Cancel the work. Runs in the Trio thread."""
        self._scope.cancel()

    def abandon(self) -> None:
        """Answer the caller although the task cannot go on. No-op if it has ended."""
        if not self.has_ended:
            self._end(BridgeClosed())

    def _end(self, error: BaseException | None) -> None:
        """Keep *error*, and wake the caller: nothing of the call runs any more."""
        self._forget(self)
        self.error = error
        self.has_ended = True
        self._waiter.notify()

    async def _run(self) -> None:
        """Body of the task."""
        error: BaseException | None = None
        try:
            with self._scope:
                self.value = await self._work()
                self.has_value = True
        except BaseException as raised:  # noqa: BLE001, ASYNC103 - the caller gets it
            # A cancellation stays on Trio: if the caller did not ask for it, the supervisor is being left.
            passing, error = split(raised)
            if passing is not None:
                error = BridgeClosed()
                raise passing from None  # noqa: ASYNC104 - it is what was caught, without the errors beside it
        finally:
            self._end(error if error is not None or self.has_value else BridgeClosed())
            error = None  # its traceback holds this frame

    def answer(self) -> T:
        """Return what the work returned, or raise what it raised; called once, after the end."""
        error, self.error = self.error, None
        if error is None:
            return cast("T", self.value)
        try:
            raise error
        finally:
            del error  # breaks a reference cycle: its traceback holds this frame

"""`AsyncBody`: the task inside an `async with` that holds a `TrioThread` open; a failure of the thread cancels it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, Generic, TypeVar, cast

from agentrail.app.supervisor import SEVERAL
from agentrail.bridge.trio_thread import TrioThread

T = TypeVar("T")


class AsyncBody(Generic[T]):
    """The body of an `async with`, as `asyncio.timeout` has one: cancelled if what is open in the thread fails."""

    def __init__(self, thread: TrioThread[T]) -> None:
        self.thread: Final = thread
        """The thread that is held open."""
        self._task: asyncio.Task[object] | None = None
        """The task in the body; `None` outside of it."""
        self._is_cancelled = False
        """Whether the task was cancelled because of a failure."""

    async def enter(self) -> T:
        """Open it, and watch for a failure from then on."""
        inside = await self.thread.open()
        self._task = cast("asyncio.Task[object] | None", asyncio.current_task())
        self.thread.on_failure = partial(self.thread.outbox().put, self._cancel)
        if self.thread.is_over:  # it has failed meanwhile
            self._cancel()
        return inside

    def _cancel(self) -> None:
        """Cancel the body. No-op if it was left, or is cancelled for this already."""
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    async def leave(self, error: BaseException | None) -> None:
        """Leave it after a body that ended with *error*; raise the failure, with the error of the body beside it."""
        task, self._task = self._task, None
        self.thread.on_failure = None
        if self._is_cancelled and task is not None:
            task.uncancel()
        try:
            await self.thread.close()
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            if error is None or isinstance(error, asyncio.CancelledError):
                raise
            raise BaseExceptionGroup(SEVERAL, [error, failure]) from None

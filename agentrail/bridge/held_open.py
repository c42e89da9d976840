"""Context managers of Trio that a task of asyncio holds open: in a thread of their own, or in one that runs."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, Generic, TypeVar, cast

import trio

from agentrail.app.supervisor import SEVERAL
from agentrail.bridge.calls import BridgeCall
from agentrail.bridge.trio_thread import TrioThread
from agentrail.bridge.waiters import LoopWaiter
from agentrail.errors import BridgeClosed

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


class HeldOpen(Generic[T]):
    """Enters *opening* on Trio, in a task of its own, and leaves it there; the end of the thread leaves it too."""

    def __init__(self, thread: TrioThread[object], opening: AbstractAsyncContextManager[T]) -> None:
        self._thread = thread
        self._opening = opening
        self._inside: T | None = None
        """What entering it gave."""
        self._is_open = False
        """Whether it has been entered."""
        self._left = trio.Event()
        """Set when it is to be left."""
        self._control: LoopWaiter
        """Wakes the task that enters or leaves."""
        self._call: BridgeCall[None]
        """The task that holds it open."""

    async def _hold(self) -> None:
        """Body of the task on Trio."""
        async with self._opening as self._inside:
            self._is_open = True
            self._control.notify()
            await self._left.wait()

    def _has_started(self) -> bool:
        return self._is_open or self._call.has_ended

    async def enter(self) -> T:
        """Enter it, and return what that gives."""
        self._control = LoopWaiter(self._thread.outbox())
        self._call = self._thread.begin(self._hold, self._control)
        cancel = partial(self._thread.cancel, self._call)
        cancellation = await self._control.until(self._has_started, cancel)
        if cancellation is not None:
            await self._control.until(self._call.is_over, cancel)
            raise cancellation
        if not self._is_open:
            self._call.answer()
        return cast("T", self._inside)

    async def leave(self, error: BaseException | None) -> None:
        """Leave it after a body that ended with *error*; raise what goes wrong, with *error* beside it."""
        self._thread.post(self._left.set)
        cancellation = await self._control.until(self._call.is_over, self._forget)
        try:
            self._call.answer()
        except BridgeClosed:  # the thread has ended before
            pass
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            if error is None or isinstance(error, asyncio.CancelledError):
                raise
            raise BaseExceptionGroup(SEVERAL, [error, failure]) from None
        if cancellation is not None:
            raise cancellation

    def _forget(self) -> None:
        """No-op: it is being left already."""

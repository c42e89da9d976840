"""`HeldOpen`: an async context manager of Trio that is open in a thread which runs for something else as well."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Generic, TypeVar, cast

import trio

from agentrail.app.supervisor import SEVERAL
from agentrail.bridge.calls import BridgeCall
from agentrail.bridge.trio_thread import TrioThread
from agentrail.bridge.waiters import LoopWaiter
from agentrail.errors import BridgeClosed

T = TypeVar("T")


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

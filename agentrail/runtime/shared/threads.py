"""Worker threads for sync tools. A thread cannot be stopped, so those whose call was cancelled are counted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar, cast

import trio

from agentrail.errors import ToolError

T = TypeVar("T")

MAX_WORKING: Final = 128
"""The most threads that work for waiting calls of a supervisor; a further call waits until one is free."""

MAX_LEFT: Final = 64
"""The most abandoned threads (their call was cancelled) of a supervisor; beyond it no thread is started."""


class WorkerThreads:
    """Counts the worker threads of all sessions."""

    __slots__ = ("_running", "limiter", "working")

    def __init__(self) -> None:
        self.limiter = trio.CapacityLimiter(MAX_WORKING)
        self._running: Counter[str] = Counter()
        self.working: dict[int, str] = {}
        """Names of the tools whose code runs in a thread now, abandoned ones included, by the thread's ident."""

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools whose threads still run."""
        return tuple(sorted(self._running))

    def check(self) -> None:
        """Refuse a new thread while `MAX_LEFT` abandoned ones still run; raise `ToolError`."""
        count = self._running.total() - self.limiter.borrowed_tokens
        if count >= MAX_LEFT:
            among = ", ".join(f"`{name}`" for name in self.names())
            raise ToolError(f"{count} threads of stopped calls go on, so no more are started; they are among {among}")

    def note(self, name: str, change: int) -> None:
        """Count a thread of the tool *name* that starts or has ended."""
        self._running[name] += change
        if not self._running[name]:
            del self._running[name]


class CallThreads:
    """The worker threads of one tool call."""

    __slots__ = ("_all", "_idle", "_name", "_running")

    def __init__(self, threads: WorkerThreads, name: str) -> None:
        self._all = threads
        self._name = name
        self._running = 0
        self._idle: trio.Event | None = None

    async def run(self, work: Callable[[], T], /) -> T:
        """Run *work* in a worker thread and return its result; if cancelled, return at once and abandon the thread."""
        self._all.check()
        async with self._all.limiter:

            def noted() -> T:
                """Run *work*, with this thread noted as working for the tool."""
                self._all.working[threading.get_ident()] = self._name
                try:
                    return work()
                finally:
                    del self._all.working[threading.get_ident()]

            counted = cast("trio.CapacityLimiter", self)  # Trio needs only the two methods below
            return await trio.to_thread.run_sync(noted, thread_name=self._name, abandon_on_cancel=True, limiter=counted)

    async def acquire_on_behalf_of(self, _: object) -> None:
        """Called by Trio when a thread is about to start: count it."""
        await trio.lowlevel.checkpoint()
        self._running += 1
        self._all.note(self._name, 1)

    def release_on_behalf_of(self, _: object) -> None:
        """Called by Trio when a thread has ended, an abandoned one too: count it down."""
        self._running -= 1
        self._all.note(self._name, -1)
        if not self._running and self._idle is not None:
            self._idle.set()

    async def wait_ended(self) -> None:
        """Wait until all threads of the call have ended."""
        if self._running:
            self._idle = trio.Event()
            await self._idle.wait()

"""Runs Trio under a synchronous test, such as a Hypothesis state machine, whose rules are plain functions.

    class Talking(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.trio = TrioDriver()
            self.supervisor = self.trio.enter(open_supervisor())

        @rule(text=st.text())
        def prompt(self, text: str) -> None:
            self.trio.call(self.session.ask, text)

        def teardown(self) -> None:
            self.trio.close()

One run of Trio lasts until `close`, in Trio's guest mode. Its clock is virtual: when all tasks wait, it jumps to the
next deadline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from queue import SimpleQueue
from typing import Protocol, TypeVar, cast

import trio
from trio.testing import MockClock

T = TypeVar("T")


class Ended(Protocol):
    """How a run of Trio ended."""

    def unwrap(self) -> None:
        """Raise the error that the run ended with, if any."""
        ...


_Job = tuple[Callable[..., Awaitable[object]], tuple[object, ...]]


class TrioDriver:
    """A run of Trio that synchronous code drives: its tasks run only during a `call`. It must be closed."""

    def __init__(self) -> None:
        self._host: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._jobs, self._wanted = _channel()
        self._answers: list[tuple[object, Exception | None]] = []
        self._ended: list[Ended] = []
        self._exits = AsyncExitStack()
        trio.lowlevel.start_guest_run(
            self._serve,
            run_sync_soon_threadsafe=self._host.put,
            done_callback=self._ended.append,
            clock=MockClock(autojump_threshold=0),
        )

    def call(self, work: Callable[..., Awaitable[T]], *args: object) -> T:
        """Run the async function *work* with *args*; return its result, or raise its error.

        Other tasks of the run go on meanwhile.
        """
        self._jobs.send_nowait((work, args))
        self._pump(lambda: bool(self._answers))
        answer, error = self._answers.pop()
        if error is not None:
            raise error
        return cast("T", answer)

    def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter the async context *manager*, and return its value; `close` leaves it."""

        async def enters() -> T:
            return await self._exits.enter_async_context(manager)

        return self.call(enters)

    def close(self) -> None:
        """Leave the context managers that were entered, and end the run."""
        if self._ended:
            return
        try:
            self.call(self._exits.aclose)
        finally:
            self._jobs.close()
            self._pump(lambda: bool(self._ended))
            self._ended[0].unwrap()

    def _pump(self, is_done: Callable[[], bool]) -> None:
        """Run Trio's loop until *is_done* is true."""
        while not is_done():
            if self._ended:
                self._ended[0].unwrap()
            self._host.get()()

    async def _serve(self) -> None:
        async with self._wanted:
            async for work, args in self._wanted:
                try:
                    self._answers.append((await work(*args), None))
                except Exception as error:  # noqa: BLE001 - `call` raises it
                    self._answers.append((None, error))


def _channel() -> tuple[trio.MemorySendChannel[_Job], trio.MemoryReceiveChannel[_Job]]:
    return trio.open_memory_channel[_Job](1)  # noqa: TID251 - it holds one job at a time

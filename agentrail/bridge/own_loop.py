"""`OwnLoop`: an asyncio loop in a thread of its own, for the marked code of a program that has no loop."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Final

from agentrail.bridge.waiters import LoopOutbox
from agentrail.reprs import in_brackets

NAME: Final = "agentrail loop"
"""Name of the thread."""

LAST: Final = 1.0
"""Seconds that tasks have to end, once they are cancelled at the end of the loop."""


class OwnLoop:
    """An asyncio loop in a thread; both are started at the first use."""

    def __init__(self) -> None:
        self._outbox: LoopOutbox | None = None
        """The way into the loop; `None` before the first use."""
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self._closing = asyncio.Event()
        """Set, in the loop, when it is to end."""

    @in_brackets
    def __repr__(self) -> str:
        return "running" if self._thread.is_alive() else "not running"

    @property
    def is_here(self) -> bool:
        """Whether the caller is in the thread of the loop."""
        return threading.current_thread() is self._thread

    def outbox(self) -> LoopOutbox:
        """Return the way into the loop; called in the Trio thread."""
        if self._outbox is None:
            self._outbox = LoopOutbox(asyncio.new_event_loop(), _nothing)
            self._thread.start()
        return self._outbox

    def _run(self) -> None:
        """Body of the thread."""
        if self._outbox is None:
            return
        loop = self._outbox.loop
        life = loop.create_task(self._live(loop))
        # asyncio leaves the loop when a task of it raises one of these. The task has ended with it; the others go on:
        # tests/bridge/test_sync.py::test_a_task_of_a_marked_tool_that_exits_ends_nothing_else
        while not life.done():
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_until_complete(life)
        loop.close()

    async def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let tasks run until the loop is closed, and end them then."""
        await self._closing.wait()
        tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LAST)
        await loop.shutdown_asyncgens()

    def close(self) -> None:
        """End the loop and its thread; tasks that ignore their cancellation are dropped with it."""
        if self._outbox is not None:
            self._outbox.put(self._closing.set)
            self._thread.join()


def _nothing() -> None:
    """No-op: the loop is closed after the supervisor, so nobody waits any more."""

"""Finds out from another thread whether Trio's loop still makes passes, or whether a task blocks it.

A Trio instrument that is called in each pass would cost every turn some per cent. So the watchdog's thread schedules a
callback by `run_sync_soon` instead, and only if no step has begun for a while. When the callback has run, the loop
counts as *resting*: it is not asked again until it has woken from its next wait. An instrument reports that, and
removes itself at once. So an idle process is not woken again and again, and a busy one pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import trio


class Rounds(trio.abc.Instrument):
    """Asks the loop of one run of Trio whether it makes passes; `asked` and `rests` say what is known."""

    def __init__(self, woken: Callable[[], None]) -> None:
        self.asked = False
        self.rests = False
        self._woken = woken
        self._closed = False
        self._root = trio.lowlevel.current_root_task()
        self._token = trio.lowlevel.current_trio_token()

    # Called in the watchdog's thread

    def ask(self) -> None:
        """Schedule the callback that answers in the loop's next pass."""
        self.asked = True
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._answer)

    def running(self) -> trio.lowlevel.Task | None:
        """Return the task that runs now; `None` if none does. No frame object of the loop's thread is made for it."""
        tasks = [] if self._root is None else [self._root]
        while tasks:
            task = tasks.pop()
            if task.coro.cr_running:
                return task
            for nursery in task.child_nurseries:
                tasks.extend(nursery.child_tasks)
        return None

    # Called in the loop's thread

    def _answer(self) -> None:
        if not self._closed:
            self.rests, self.asked = True, False
            trio.lowlevel.add_instrument(self)

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's
        """Note that the loop has woken, so that it is asked again, and remove this instrument."""
        trio.lowlevel.remove_instrument(self)
        self.rests = False
        self._woken()

    def close(self) -> None:
        """Stop answering, and remove the instrument."""
        self._closed = True
        if self.rests:
            trio.lowlevel.remove_instrument(self)


def in_real_time() -> bool:
    """Return whether this run's clock goes at the pace of real time; a virtual clock does not."""
    clock = trio.lowlevel.current_clock()
    return clock.deadline_to_sleep_time(clock.current_time() + 1.0) <= 1.0

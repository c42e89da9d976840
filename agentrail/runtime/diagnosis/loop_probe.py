"""Whether the loop comes round: asked from outside while no step runs, because any task may hold it up.

A hook of Trio for each pass would cost every turn some per cent. So the loop is asked by `run_sync_soon`, and only when
no step has begun for a while. A loop that has answered *rests*: it is not asked again before something has woken it,
which a hook tells that is there for one pass alone. An idle process is left in peace, and a busy one pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import trio


class Rounds(trio.abc.Instrument):
    """One run of Trio, as another thread sees it."""

    def __init__(self, woken: Callable[[], None]) -> None:
        self.asked = False
        self.rests = False
        self._woken = woken
        self._closed = False
        self._root = trio.lowlevel.current_root_task()
        self._token = trio.lowlevel.current_trio_token()

    # In the thread that asks

    def ask(self) -> None:
        """Have the loop answer when it comes round."""
        self.asked = True
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._answer)

    def running(self) -> trio.lowlevel.Task | None:
        """Return the task that runs now; `None` if none does. No frame is touched for it."""
        tasks = [] if self._root is None else [self._root]
        while tasks:
            task = tasks.pop()
            if task.coro.cr_running:
                return task
            for nursery in task.child_nurseries:
                tasks.extend(nursery.child_tasks)
        return None

    # In the loop

    def _answer(self) -> None:
        if not self._closed:
            self.rests, self.asked = True, False
            trio.lowlevel.add_instrument(self)

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's
        """Hear that the loop goes on: it is worth asking again."""
        trio.lowlevel.remove_instrument(self)
        self.rests = False
        self._woken()

    def close(self) -> None:
        """Hear no more."""
        self._closed = True
        if self.rests:
            self.rests = False
            trio.lowlevel.remove_instrument(self)


def in_real_time() -> bool:
    """Return whether a second of this run is one of the world: virtual time goes on while nothing is held up."""
    clock = trio.lowlevel.current_clock()
    return clock.deadline_to_sleep_time(clock.current_time() + 1.0) <= 1.0

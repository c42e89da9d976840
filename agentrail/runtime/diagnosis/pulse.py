"""Tells the watchdog whether Trio's loop makes passes, rests, or is blocked by a task.

The loop says so itself. A thread that asks a busy loop has to take the interpreter's lock, and Trio gives that up only
for an instant in each pass: the thread is woken in every pass, thousands of times a second, and hardly ever runs. So a
system task puts off the watchdog's alarm while the loop makes passes, and the thread wakes only if the task could not.

The task lets the loop rest: an instrument is there until the loop next waits, and if it has to wait for something to
happen, the task waits until another task is scheduled. A Trio instrument in each pass would cost every turn some per
cent. One task serves all supervisors of a run, because the tasks of two would wake each other for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

BEAT: Final = 0.04
"""Seconds between two beats while the loop makes passes; shorter than `watchdog.SLOW`, to which steps set the alarm."""


class Pulse(trio.abc.Instrument):
    """Calls *beat* in the loop's thread every `BEAT` seconds, except while the loop waits for something to happen."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self.beats = 0
        """How often the loop has said that it makes passes; never falls."""
        self.rests = False
        """Whether the loop waits, and has waited since the last beat."""
        self._beat = beat
        self._beaten = trio.Event()
        self._scope = trio.CancelScope()
        self._root = trio.lowlevel.current_root_task()
        beat()
        trio.lowlevel.spawn_system_task(self._go_on, name="agentrail pulse")

    # Called in the watchdog's thread

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

    async def _go_on(self) -> None:
        """Body of the task: every `BEAT` seconds, add the instrument that beats in the next pass."""
        with self._scope:
            while True:
                await trio.sleep(BEAT)
                self._beaten = trio.Event()
                trio.lowlevel.add_instrument(self)
                await self._beaten.wait()

    def before_io_wait(self, timeout: float) -> None:
        """Beat, unless Trio is about to rest: with a *timeout* above 0, no task is ready to run."""
        self.rests = timeout > 0
        if not self.rests:
            self._come_round()

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - Trio's
        """Beat, because the loop rests no more.

        That it has waited is no reason: it also wakes to see that nothing happens, for `wait_all_tasks_blocked`, and a
        task that is woken by that would be what happens.
        """
        if self.rests:
            self._come_round()

    def _come_round(self) -> None:
        """Beat once, and let the task sleep again."""
        trio.lowlevel.remove_instrument(self)
        self.rests = False
        self.beats += 1
        self._beat()
        self._beaten.set()

    def close(self) -> None:
        """End the task; an instrument that is still there removes itself in the next pass."""
        self._scope.cancel()


def in_real_time() -> bool:
    """Return whether this run's clock goes at the pace of real time; a virtual clock does not."""
    clock = trio.lowlevel.current_clock()
    return clock.deadline_to_sleep_time(clock.current_time() + 1.0) <= 1.0

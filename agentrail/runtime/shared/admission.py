"""Gates: they spread sessions that start on a user's message, and those who hear deltas, over several passes.

Trio runs every ready task once per pass. A thousand prompts at once would make a thousand sessions ready, and an abort
would wait for all of them; so it would for a thousand subscribers of deltas that come together. Urgent commands,
results and durable events do not pass a gate.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import trio

WIDTH = 8
"""How many sessions are admitted per pass of Trio's scheduler.

With fewer, many prompts start later; with more, aborts wait longer.
"""

HEARING = 16
"""How many subscribers are woken for deltas per pass: each may write to a socket.

With fewer, many deltas at once take longer; with more, aborts wait longer.
"""


class Gate:
    """Admits waiting sessions or subscribers, a few per pass."""

    __slots__ = ("_admitted", "_parked", "_waiting", "_width")

    def __init__(self, width: float = WIDTH) -> None:
        self._width = width
        self._admitted = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._parked: trio.lowlevel.Task | None = None

    def enter(self, admit: Callable[[], None]) -> None:
        """Call *admit* in this pass if there is room, else in a later one.

        The gate's task is woken when there is no room left, in this pass or one before, and makes room in the next one.
        """
        if self._width is math.inf:
            admit()
            return
        # Without a width, a thousand prompts make a thousand sessions ready in one pass, and an abort waits for all:
        # tests/test_load.py::test_an_abort_beside_a_hundred_prompted_sessions_is_heard_before_they_have_their_turns
        if self._admitted < self._width and not self._waiting:
            self._admitted += 1
            admit()
        else:
            self._waiting.append(admit)
        if self._admitted >= self._width and self._parked is not None:
            task, self._parked = self._parked, None
            trio.lowlevel.reschedule(task)

    async def run(self) -> None:
        """Admit some of those that wait, once per pass of the scheduler."""
        while True:
            self._admitted = 0
            if self._waiting:
                self._admitted = min(int(self._width), len(self._waiting))
                for _ in range(self._admitted):
                    self._waiting.popleft()()
                await trio.lowlevel.checkpoint()
            else:
                self._parked = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._leave)

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        """Forget the waiting task: called by Trio when it is cancelled."""
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED

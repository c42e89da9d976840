"""The alarm of a session that dozes or hibernates: a letter in its mailbox starts its task again."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Final, Protocol

import trio

from agentrail.runtime.shared.timers import Timers
from agentrail.runtime.supervision.children import Child

A_MOMENT: Final = 0.001
"""Seconds after which a clock that shows infinity is looked at again."""


class Rouser(Protocol):
    """Interface: the supervisor of a session."""

    def rouse(self, child: Child) -> None:
        """Restart the actor of a session that dozes or hibernates, because a message came."""
        ...


class Alarm:
    """Callback that wakes a session without a task; kept small, as there may be very many."""

    __slots__ = ("_child", "_context", "_node")

    def __init__(self, node: Rouser, child: Child) -> None:
        self._node = node
        self._child = child
        # The context variables of the task that ends here, so that the next one, and the tools that it starts, have
        # the same; and not those of the caller whose letter it is:
        # tests/runtime/test_dozing.py::test_tools_see_the_context_of_the_spawn_whoever_woke_the_session
        context = trio.lowlevel.current_task().context
        self._context = context if len(context) else None

    def __call__(self) -> None:
        """Wake the session."""
        (self._context or Context()).run(self._node.rouse, self._child)


def when_finite(timers: Timers, session_id: str, begin: Callable[[], None]) -> None:
    """Call *begin* as soon as a user's clock does not show infinity: Trio would cancel its task at once."""
    if trio.current_time() == math.inf:
        again = partial(when_finite, timers, session_id, begin)
        timers.set((session_id, "rouse"), timers.clock.after(A_MOMENT), again)
    else:
        begin()

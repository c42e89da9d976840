"""Draws the character of a run: which actions no caller does, how long callers wait, how often there are sub-agents.

With the same chances in each run, all runs would be alike. So each run leaves some things out, and others become
frequent in it: if no caller decides about held calls, for example, sessions often sleep while a call is held.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentrail.testing.world.choose import Choose
from agentrail.values.value import Value

SLEEPS: Final = ((None, None, 0.5, 3.0), (0.5,))
"""Lists of idle times in seconds after which a session sleeps (`None`: never); a run draws a list, a session a time."""


class Temper(Value):
    """The bias of one run: how often callers do what, and how long they wait."""

    left_out: frozenset[str] = frozenset()
    """Names of the actions that no caller does."""
    pace: int = 1
    """How many times longer than usual callers wait between two actions."""
    helpers: int = 25
    """How many sessions out of a hundred have a sub-agent."""
    sleeps: tuple[float | None, ...] = SLEEPS[0]
    """Idle times in seconds after which a session sleeps (`None`: never); each session draws one of them."""
    snapshots: int = 200
    """Number of records after which a snapshot is kept; if it is smaller than usual, without the history."""
    canary: bool = False
    """Whether all say the canary, and every session has the plugin that screens it out."""


def draw_temper(choose: Choose, doings: Iterable[str]) -> Temper:
    """Draw the bias of a run; *doings* are the names of all actions, some of which it may leave out."""
    names = tuple(doings)
    return Temper(
        frozenset(choose.some(names, 25)) if choose.percent(50) else frozenset(),
        choose.pick((1, 1, 1, 8)),
        choose.pick((25, 10, 90)),
        choose.pick(SLEEPS),
        choose.pick((200, 20, 3)),
        choose.percent(35),
    )

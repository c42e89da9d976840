"""Draws the character of a run: which actions no caller does, how long callers wait, how often there are sub-agents.

Chance that is the same in each run shows the same middle of the world each time. So each run leans to some side: what
is rare beside everything else, such as a session that sleeps while a call is held, is common where nobody decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentrail.testing.world.choose import Choose
from agentrail.values.value import Value, value

SLEEPS: Final = ((None, None, 0.5, 3.0), (0.5,))
"""Seconds after which sessions with nothing to do go to sleep, one of which each session has."""


@value
class Temper(Value):
    """What is special about a run."""

    left_out: frozenset[str] = frozenset()
    """What no caller does."""
    pace: int = 1
    """How many times longer than usual callers wait between two doings."""
    helpers: int = 25
    """How many sessions out of a hundred have a sub-agent."""
    sleeps: tuple[float | None, ...] = SLEEPS[0]
    """Seconds after which sessions with nothing to do go to sleep."""
    snapshots: int = 200
    """Records after which a snapshot is kept."""


def draw_temper(choose: Choose, doings: Iterable[str]) -> Temper:
    """Draw what is special about a run in which callers could do *doings*."""
    names = tuple(doings)
    return Temper(
        frozenset(choose.some(names, 25)) if choose.percent(50) else frozenset(),
        choose.pick((1, 1, 1, 8)),
        choose.pick((25, 10, 90)),
        choose.pick(SLEEPS),
        choose.pick((200, 20, 3)),
    )

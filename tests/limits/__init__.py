"""Every limit of the package, one below it, at it, and one above.

`listed.py` names each limit with its figure and what it bounds; `test_list.py` holds that list against the package, so
that a new limit needs a line there. A limit is held by a scene: a function that is given a size, and says whether so
much passes. `test_at_the_limit.py` asks each scene for one below the limit, the limit, and one above.
"""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Final, TypeAlias

from attrs import frozen

SIDES: Final = (-1, 0, 1)
"""Where each limit is tried, from it."""

Passes: TypeAlias = Callable[[int], bool] | Callable[[int], Awaitable[bool]]


@frozen
class Scene:
    """One way to come to a limit."""

    limit: str
    """Which limit: module, and name in it, without `agentrail`."""
    at: int
    """The size that is tried, with its two neighbours."""
    passes: Passes
    """Whether so much passes."""
    last: int
    """The last of the three sizes that passes, from `at`: 0: the limit itself does; -1: it does not."""

    @property
    def name(self) -> str:
        return f"{self.limit}-{getattr(self.passes, '__name__', '')}"


SCENES: Final[list[Scene]] = []


def figure_of(limit: str) -> int | float:
    """Return the figure that a limit has in the package."""
    module, _, name = limit.rpartition(".")
    found: int | float = getattr(import_module(f"agentrail.{module}"), name)
    return found


def scene(limit: str, at: int | None = None, *, last: int = 0) -> Callable[[Passes], Passes]:
    """Enter a function that says whether so much passes; *at*: where, if the limit is no constant of the package."""

    def enter(passes: Passes) -> Passes:
        SCENES.append(Scene(limit, int(figure_of(limit)) if at is None else at, passes, last))
        return passes

    return enter

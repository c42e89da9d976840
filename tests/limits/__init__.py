"""Tests of every limit of the package: one below it, at it, and one above it.

A scene is a function that gets a size and returns whether something of that size passes.
`test_at_the_limit.py` calls each scene with one below the limit, the limit, and one above.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Final, TypeAlias

from attrs import frozen

SIDES: Final = (-1, 0, 1)
"""The three sizes at which a limit is tried, relative to the limit."""

Passes: TypeAlias = Callable[[int], bool] | Callable[[int], Awaitable[bool]]


@frozen
class Scene:
    """A way to reach a limit."""

    limit: str
    """The limit: module (without `agentrail`) and name."""
    at: int
    """The size that is tried, with the sizes next to it."""
    passes: Passes
    """Returns whether something of the given size passes."""
    last: int
    """The largest of the three sizes that passes, relative to `at`: 0: the limit itself; -1: one below it."""

    @property
    def name(self) -> str:
        return f"{self.limit}-{getattr(self.passes, '__name__', '')}"


SCENES: Final[list[Scene]] = []


def figure_of(limit: str) -> int | float:
    """Return the value that a limit has in the package."""
    module, _, name = limit.rpartition(".")
    actual: int | float = getattr(import_module(f"agentrail.{module}"), name)
    return actual


def scene(limit: str, number: int | None = None, *, last: int = 0) -> Callable[[Passes], Passes]:
    """Register a scene; *number* is the size to try, by default the value of the constant *limit*."""

    def enter(passes: Passes) -> Passes:
        SCENES.append(Scene(limit, int(figure_of(limit)) if number is None else number, passes, last))
        return passes

    return enter


@contextmanager
def smaller(module: ModuleType, name: str, figure: int) -> Iterator[None]:
    """Make a limit smaller where reaching it would take long."""
    was: object = getattr(module, name)
    setattr(module, name, figure)
    try:
        yield
    finally:
        setattr(module, name, was)

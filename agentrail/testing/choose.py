"""Where the choices of a generated run come from: a seeded generator for volume, Hypothesis for small examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choose:
    """Makes choices out of one function that draws a number below a limit; 0 should be its simplest answer."""

    __slots__ = ("below",)

    def __init__(self, below: Callable[[int], int]) -> None:
        self.below = below

    def number(self, least: int, most: int) -> int:
        """Return a number from *least* to *most*."""
        return least + self.below(most - least + 1)

    def percent(self, of: int) -> bool:
        """Return true in *of* cases out of a hundred."""
        return self.below(100) >= 100 - of

    def pick(self, options: Sequence[T]) -> T:
        """Return one of *options*; the first is the simplest."""
        return options[self.below(len(options))]

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """Return one of *options*, each as often as its weight says."""
        drawn = self.below(sum(weight for weight, _ in options))
        for weight, option in options:
            drawn -= weight
            if drawn < 0:
                return option
        raise AssertionError(options)

    def some(self, options: Sequence[T], percent: int) -> tuple[T, ...]:
        """Return those of *options* that each win a draw, in order."""
        return tuple(option for option in options if self.percent(percent))

"""`Choose`, the source of choices for random runs.

Choices come from a seeded generator where many runs are wanted, and from Hypothesis where examples are to be shrunk.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from math import gcd
from typing import TypeVar

T = TypeVar("T")


class Choose:
    """Makes random choices by the function *below*, which draws a number from 0 up to, but not including, its argument.

    Where runs are shrunk, 0 counts as the simplest number.
    """

    __slots__ = ("below",)

    def __init__(self, below: Callable[[int], int]) -> None:
        self.below = below

    def number(self, least: int, most: int) -> int:
        """Return a number from *least* to *most*."""
        return least + self.below(most - least + 1)

    def percent(self, of: int) -> bool:
        """Return true in *of* cases out of a hundred."""
        return self.below(100) >= 100 - of

    def turn(self, about: Hashable, below: int) -> int:  # noqa: ARG002 - `Walking` uses it
        """Return a number below *below*; `Walking` returns each one before it repeats any, for each *about* apart."""
        return self.below(below)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of *options*; the first is the simplest."""
        return options[self.below(len(options))]

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """Return one of *options*, pairs of weight and option; a greater weight is drawn more often."""
        drawn = self.below(sum(weight for weight, _ in options))
        for weight, option in options:
            drawn -= weight
            if drawn < 0:
                return option
        raise AssertionError(options)

    def some(self, options: Sequence[T], percent: int) -> tuple[T, ...]:
        """Return some of *options*, in order: each is taken with a chance of *percent*."""
        return tuple(option for option in options if self.percent(percent))


class Walking(Choose):
    """Makes choices as `Choose` does, but `turn` goes through all numbers in turn, in an order that is drawn."""

    __slots__ = ("_pace", "_walks")

    def __init__(self, below: Callable[[int], int]) -> None:
        super().__init__(below)
        self._pace = below
        """Draws where each walk begins, and how wide its steps are."""
        self._walks: dict[tuple[Hashable, int], tuple[int, int]] = {}
        """The next number and the step width of each walk, by what it is about and its bound."""

    def turn(self, about: Hashable, below: int) -> int:
        """Return the next number of a walk over all numbers below *below*; each *about* has a walk of its own."""
        number, stride = self._walks.get((about, below)) or (self._pace(below), self._stride(below))
        self._walks[about, below] = (number + stride) % below, stride
        return number

    def _stride(self, below: int) -> int:
        """Draw the step width of a walk over all numbers below *below*: a number without a common divisor with it."""
        while gcd(stride := 1 + self._pace(below), below) != 1:
            pass
        return stride


class InTurn(Walking):
    """Makes choices with a seeded generator, in walks, and keeps them in `drawn`."""

    __slots__ = ("drawn",)

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed).randrange)  # noqa: S311 - no secret
        self.below = self._below
        self.drawn: list[int] = []

    def _below(self, below: int) -> int:
        drawn = self._pace(below)
        self.drawn.append(drawn)
        return drawn

    def turn(self, about: Hashable, below: int) -> int:
        """Return the next number of a walk, and keep it."""
        number = super().turn(about, below)
        self.drawn.append(number)
        return number

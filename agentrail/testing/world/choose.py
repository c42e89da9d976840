"""Where the choices of a generated run come from: a seeded generator for volume, Hypothesis for small examples."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from math import gcd
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

    def turn(self, about: Hashable, below: int) -> int:  # noqa: ARG002 - `InTurn` looks at it
        """Return a number below a limit; `InTurn` returns each one for *about* before it returns one again."""
        return self.below(below)

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


class InTurn(Choose):
    """Choices of a seeded generator, kept in `drawn`; numbers asked for by `turn` come each in its turn."""

    __slots__ = ("_chance", "_walks", "drawn")

    def __init__(self, seed: int) -> None:
        super().__init__(self._below)
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._walks: dict[tuple[Hashable, int], tuple[int, int]] = {}
        self.drawn: list[int] = []

    def _below(self, below: int) -> int:
        drawn = self._chance.randrange(below)
        self.drawn.append(drawn)
        return drawn

    def turn(self, about: Hashable, below: int) -> int:
        """Return the next number of a walk through all numbers below a limit; each *about* has its own walk."""
        at, stride = self._walks.get((about, below)) or (self._chance.randrange(below), self._stride(below))
        self._walks[about, below] = (at + stride) % below, stride
        self.drawn.append(at)
        return at

    def _stride(self, below: int) -> int:
        """Draw a stride that meets all numbers below a limit: the two have no divisor in common."""
        while gcd(stride := self._chance.randrange(1, below + 1), below) != 1:
            pass
        return stride

"""Shrinks a failing random run: leaves out random choices of it or makes them smaller, and plays the run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from agentrail.testing.world.choose import Choose

T = TypeVar("T")

TRIES: Final = 2_000
"""How many simpler runs are played at most."""

SIZES: Final = (16, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1)
"""How many choices next to each other are left out at once."""

SMALLER: Final[tuple[Callable[[int], int], ...]] = (lambda _: 0, lambda chosen: chosen // 2, lambda chosen: chosen - 1)
"""Ways to make a choice smaller, tried in order; each is repeated as long as the run still fails."""


class Replayed(Choose):
    """Source of choices that repeats given ones, and then always chooses 0; `drawn` has the choices made."""

    __slots__ = ("_choices", "drawn")

    def __init__(self, choices: Sequence[int]) -> None:
        super().__init__(self._below)
        self._choices = choices
        self.drawn: list[int] = []

    def _below(self, below: int) -> int:
        place = len(self.drawn)
        drawn = min(self._choices[place], below - 1) if place < len(self._choices) else 0
        self.drawn.append(drawn)
        return drawn


class Simplest(Generic[T]):
    """Looks for the simplest list of choices with which a run still fails.

    A shorter list is simpler; of two lists of the same length, the one that sorts first.
    """

    def __init__(self, choices: Sequence[int], failure: T, run: Callable[[Choose], T | None]) -> None:
        self.choices = [*choices]
        self.failure = failure
        self._run = run
        self._left = TRIES

    def find(self) -> T:
        """Simplify until nothing gets simpler, or `TRIES` runs were played; return the failure of the simplest run."""
        before: list[int] = []
        while before != self.choices and self._left > 0:
            before = self.choices
            self._fewer()
            self._smaller()
        return self.failure

    def _fewer(self) -> None:
        """Try to leave out groups of choices next to each other, large groups first, from the end to the start."""
        for size in SIZES:
            for start in range(len(self.choices) - size, -1, -1):
                self._fails(start, size)

    def _smaller(self) -> None:
        """Try to make each choice a smaller number."""
        for place in range(len(self.choices)):
            for smaller in SMALLER:
                while self._at(place) and self._fails(place, 1, smaller(self._at(place))):
                    pass

    def _at(self, place: int) -> int:
        return self.choices[place] if place < len(self.choices) else 0

    def _fails(self, start: int, size: int, *instead: int) -> bool:
        """Play the run with other choices from *start* on; if it fails and is simpler, keep them and return `True`."""
        if self._left <= 0:
            return False
        self._left -= 1
        choose = Replayed([*self.choices[:start], *instead, *self.choices[start + size :]])
        failure = self._run(choose)
        if failure is None or (len(choose.drawn), choose.drawn) >= (len(self.choices), self.choices):
            return False
        self.choices, self.failure = choose.drawn, failure
        return True

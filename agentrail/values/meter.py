"""Counts the steps of a check, so that its cost is bounded and the same on every machine."""

from __future__ import annotations

from typing import Final

CHECK_STEPS: Final = 50_000
"""Steps that checking one value may take. A step takes less than a microsecond, and mostly much less."""


RESPONSE_STEPS: Final = 2 * CHECK_STEPS
"""Steps that checking all calls of one response may take together: they are checked in one step of the session."""


class TooManyStepsError(Exception):
    """The steps of a meter are used up."""

    def __init__(self) -> None:
        super().__init__("it takes too many steps")


class Meter:
    """The steps that are left: for one check, or for those of all calls of a response."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Take *steps*; raise `TooManyStepsError` if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise TooManyStepsError

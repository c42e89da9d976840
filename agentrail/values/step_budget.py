"""`Meter` limits how many steps a check of a value may take; unlike a time limit, it is the same on every machine."""

from __future__ import annotations

from typing import Final

CHECK_STEPS: Final = 50_000
"""The most steps that checking one value may take; a step takes less than a microsecond."""


RESPONSE_STEPS: Final = 2 * CHECK_STEPS
"""The most steps that checking all calls of one response may take; the session checks them all at once."""


class TooManyStepsError(Exception):
    """A meter has no steps left."""

    def __init__(self) -> None:
        super().__init__("it takes too many steps")


class Meter:
    """Counts down the steps of one check, or of the checks of all calls of a response."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Take *steps*; raise `TooManyStepsError` if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise TooManyStepsError

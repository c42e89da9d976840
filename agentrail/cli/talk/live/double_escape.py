"""`DoubleEscape`: tells an Escape that is the second one in a row, where there was nothing for the first one to do."""

from __future__ import annotations

import math
from typing import Final

from agentrail.cli.output.screen_question import SEEN

TWICE: Final = 1.0
"""Seconds within which the second one comes."""


class DoubleEscape:
    """Of the keys of one terminal, which Escape is meant as the second one.

    Somebody who hits Escape again and again to stop what runs means none of them so: the first one counts only after a
    pause, in which nothing ran, and nothing was open.
    """

    def __init__(self) -> None:
        self._busy_at = -math.inf  # when something last ran or was open that Escape ends
        self._key_count = 0  # keys that have come
        self._first_at = -math.inf  # when the first of two came
        self._first_count = -1  # how many keys had come with it

    def note_key(self) -> None:
        """Note that a key has come."""
        self._key_count += 1

    def note_busy(self, now: float) -> None:
        """Note that at *now*, in seconds, something runs or is open."""
        self._busy_at = now

    def press(self, now: float, *, is_after_pause: bool) -> bool:
        """Take the Escape that was noted last, for which there is nothing else to do; return whether it is the second.

        *is_after_pause*: no key came just before.
        """
        is_second = self._key_count == self._first_count + 1 and now - self._first_at < TWICE
        if is_second or not is_after_pause or now - self._busy_at <= SEEN:
            self._first_count = -1
        else:
            self._first_at, self._first_count = now, self._key_count
        return is_second

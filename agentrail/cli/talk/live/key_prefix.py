"""`KeyPrefix`: a key that has the next one mean something else, however long a person takes between the two."""

from __future__ import annotations

import math
from typing import Final

WITHIN: Final = 2.0
"""Seconds after the prefix within which the next key comes."""


class KeyPrefix:
    """Whether the key that is handled now follows the prefix."""

    def __init__(self) -> None:
        self._count = 0  # how many keys have come
        self._prefix_number = -1  # the number of the last prefix among them
        self._prefix_at = -math.inf  # when it came, in seconds

    def note_key(self) -> None:
        """Count a key, before anything is done about it."""
        self._count += 1

    def press(self, now: float) -> None:
        """Note that the key which is handled now is the prefix."""
        self._prefix_number, self._prefix_at = self._count, now

    def is_before(self, now: float) -> bool:
        """Whether the prefix was the key before the one that is handled now."""
        return self._count == self._prefix_number + 1 and now - self._prefix_at < WITHIN

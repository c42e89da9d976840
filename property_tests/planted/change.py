"""Bugs that are made by replacing one text in the source of one function."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from property_tests.planted import Bug, Planting


class Change(NamedTuple):
    """A bug made by one replacement in the source of a function."""

    name: str
    """Name of the bug."""
    says: str
    """What the changed function does wrong, in words."""
    where: object
    """The function whose source is changed."""
    old: str
    """The text in its source that is replaced."""
    new: str
    """The text that replaces it."""
    finder: str
    """Name of the search that finds the bug."""

    def bug(self) -> Bug:
        """Return the bug, as one that a reader of the design and the code has invented."""
        return Bug(self.name, self.says, partial(_plant, self), self.finder, chosen="reader")


def _plant(change: Change, planting: Planting) -> None:
    planting.rewrite(change.where, change.old, change.new)

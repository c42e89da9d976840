"""A bug as one place of one function that says something else."""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import NamedTuple, cast

from property_tests.planted import Bug, Planting


class Change(NamedTuple):
    """One place of one function."""

    name: str
    """What the bug is called."""
    says: str
    """What is wrong."""
    where: object
    """The function."""
    old: str
    """What it says."""
    new: str
    """What it says instead."""
    finder: str
    """What finds it."""

    def bug(self) -> Bug:
        """Return the bug; whoever reads the design and the code alone has chosen it."""
        return Bug(self.name, self.says, partial(_plant, self), self.finder, chosen="reader")


def _plant(change: Change, planting: Planting) -> None:
    planting.rewrite(cast("FunctionType", change.where), change.old, change.new)

"""Bounds on a value, written beside its type: `Annotated[int, Range(ge=1, le=100)]`."""

from __future__ import annotations

import math
from typing import TypeAlias

from agentrail.values.patterns import flaw_of
from agentrail.values.value import Authored


class Range(Authored, kw_only=True):
    """Limits of a number."""

    ge: float | None = None
    """The number must be at least this; `None` if there is no such limit."""
    gt: float | None = None
    """The number must be more than this; `None` if there is no such limit."""
    le: float | None = None
    """The number must be at most this; `None` if there is no such limit."""
    lt: float | None = None
    """The number must be less than this; `None` if there is no such limit."""

    def flaw(self) -> str | None:
        """Return why the bound is invalid, in words that follow "which"; `None` if it is valid."""
        return None if all(map(math.isfinite, self.options().values())) else "has a limit that is not finite"

    def options(self) -> dict[str, float]:
        """Return the limits by their names in `msgspec.Meta`."""
        limits = {"ge": self.ge, "gt": self.gt, "le": self.le, "lt": self.lt}
        return {name: limit for name, limit in limits.items() if limit is not None}


class Length(Authored, kw_only=True):
    """Limits of a length: characters of a text, items of a list, keys of a `dict`."""

    min: int = 0
    """The smallest length that is allowed."""
    max: int | None = None
    """The largest length that is allowed; `None` if there is no such limit."""

    def flaw(self) -> str | None:
        """Return why the bound is invalid, in words that follow "which"; `None` if it is valid."""
        fine = self.min >= 0 and (self.max is None or self.max >= self.min)
        return None if fine else "admits nothing"

    def options(self) -> dict[str, int]:
        """Return the limits by their names in `msgspec.Meta`."""
        limits = {"min_length": self.min or None, "max_length": self.max}
        return {name: limit for name, limit in limits.items() if limit is not None}


class Pattern(Authored):
    """A regular expression that must match somewhere in a text; with `^` and `$` it must match the whole text."""

    regex: str
    """The regular expression, in the syntax of `re`."""

    def flaw(self) -> str | None:
        """Return why the expression is invalid, in words that follow "which"; `None` if it is valid."""
        return flaw_of(self.regex)

    def options(self) -> dict[str, str]:
        """Return the expression by its name in `msgspec.Meta`."""
        return {"pattern": self.regex}


Bound: TypeAlias = Range | Length | Pattern

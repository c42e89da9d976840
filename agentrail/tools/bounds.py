"""Bounds on a value, written beside its type: `Annotated[int, Range(ge=1, le=100)]`.

Each bound can be written as keywords of JSON Schema (`keywords`) and checked for a value (`holds`). Like the keywords,
it applies to some types only, and values of other types pass: `Annotated[int | None, Range(ge=1)]` admits `None`.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from agentrail.tools.json_schema.regex import flaw_of, regex
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.meter import CHECK_STEPS, Meter
from agentrail.values.value import Authored

_LENGTHS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


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
        limits = (self.ge, self.gt, self.le, self.lt)
        return None if all(one is None or math.isfinite(one) for one in limits) else "has a limit that is not finite"

    def keywords(self, kind: str) -> JsonObject:
        """Return the bound as keywords of JSON Schema for the JSON type *kind*; empty if it does not apply to it."""
        if kind not in {"integer", "number"}:
            return EMPTY
        said = {"minimum": self.ge, "exclusiveMinimum": self.gt, "maximum": self.le, "exclusiveMaximum": self.lt}
        return {keyword: limit for keyword, limit in said.items() if limit is not None}

    def holds(self, found: object) -> bool:
        """Whether *found* is within the limits, or is no number."""
        if isinstance(found, bool) or not isinstance(found, int | float):
            return True
        return (
            (self.ge is None or found >= self.ge)
            and (self.gt is None or found > self.gt)
            and (self.le is None or found <= self.le)
            and (self.lt is None or found < self.lt)
        )


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

    def keywords(self, kind: str) -> JsonObject:
        """Return the bound as keywords of JSON Schema for the JSON type *kind*; empty if it does not apply to it."""
        if kind not in _LENGTHS:
            return EMPTY
        least, most = _LENGTHS[kind]
        said: dict[str, Json] = {least: self.min} if self.min else {}
        return said if self.max is None else {**said, most: self.max}

    def holds(self, found: object) -> bool:
        """Whether the length of *found* is within the limits, or *found* has no length."""
        if not isinstance(found, str | list | tuple | dict):
            return True
        length = len(found)  # pyright: ignore[reportUnknownArgumentType]  # only the length matters, not the types of its items
        return self.min <= length and (self.max is None or length <= self.max)


class Pattern(Authored):
    """A regular expression that must match somewhere in a text; with `^` and `$` it must match the whole text."""

    regex: str
    """The regular expression, in the syntax of `re`, without back-references and atomic groups."""

    def flaw(self) -> str | None:
        """Return why the expression is invalid, in words that follow "which"; `None` if it is valid."""
        return flaw_of(self.regex)

    def keywords(self, kind: str) -> JsonObject:
        """Return the bound as keywords of JSON Schema for the JSON type *kind*; empty if it does not apply to it."""
        return {"pattern": self.regex} if kind == "string" else EMPTY

    def holds(self, found: object) -> bool:
        """Whether the expression matches in *found*, or *found* is no text."""
        return not isinstance(found, str) or regex(self.regex).found_in(found, Meter(CHECK_STEPS))


Bound: TypeAlias = Range | Length | Pattern

"""Bounds on a value, written beside its type: `Annotated[int, Range(ge=1, le=100)]`.

A bound says the same thing twice: as keywords of JSON Schema, and as a test of a value. Like the keywords, it speaks
about some types only and holds for a value of any other, so `Annotated[int | None, Range(ge=1)]` admits `None`.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import attrs

from agentrail.tools.json_schema.regex import flaw_of, regex
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.meter import CHECK_STEPS, Meter
from agentrail.values.value import Authored, value

_LENGTHS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


@value
class Range(Authored):
    """How small and how large a number may be."""

    ge: float | None = attrs.field(default=None, kw_only=True)
    """It is at least this."""
    gt: float | None = attrs.field(default=None, kw_only=True)
    """It is more than this."""
    le: float | None = attrs.field(default=None, kw_only=True)
    """It is at most this."""
    lt: float | None = attrs.field(default=None, kw_only=True)
    """It is less than this."""

    def flaw(self) -> str | None:
        """Say what is wrong with the bound itself."""
        limits = (self.ge, self.gt, self.le, self.lt)
        return None if all(one is None or math.isfinite(one) for one in limits) else "has a limit that is not finite"

    def keywords(self, kind: str) -> JsonObject:
        """Return what it says about the JSON type *kind*."""
        if kind not in {"integer", "number"}:
            return EMPTY
        said = {"minimum": self.ge, "exclusiveMinimum": self.gt, "maximum": self.le, "exclusiveMaximum": self.lt}
        return {keyword: limit for keyword, limit in said.items() if limit is not None}

    def holds(self, found: object) -> bool:
        """Whether *found* is inside."""
        if isinstance(found, bool) or not isinstance(found, int | float):
            return True
        return (
            (self.ge is None or found >= self.ge)
            and (self.gt is None or found > self.gt)
            and (self.le is None or found <= self.le)
            and (self.lt is None or found < self.lt)
        )


@value
class Length(Authored):
    """How many characters a text, items a list or keys a `dict` may have."""

    min: int = attrs.field(default=0, kw_only=True)
    """At least so many."""
    max: int | None = attrs.field(default=None, kw_only=True)
    """At most so many; `None`: any number."""

    def flaw(self) -> str | None:
        """Say what is wrong with the bound itself."""
        fine = self.min >= 0 and (self.max is None or self.max >= self.min)
        return None if fine else "admits nothing"

    def keywords(self, kind: str) -> JsonObject:
        """Return what it says about the JSON type *kind*."""
        if kind not in _LENGTHS:
            return EMPTY
        least, most = _LENGTHS[kind]
        said: dict[str, Json] = {least: self.min} if self.min else {}
        return said if self.max is None else {**said, most: self.max}

    def holds(self, found: object) -> bool:
        """Whether *found* is neither too short nor too long."""
        if not isinstance(found, str | list | tuple | dict):
            return True
        length = len(found)  # pyright: ignore[reportUnknownArgumentType]  # what it holds does not matter
        return self.min <= length and (self.max is None or length <= self.max)


@value
class Pattern(Authored):
    """What a text looks like; searched for anywhere in it, so anchor it with `^` and `$`."""

    regex: str
    """A regular expression as `re` reads it, without groups that it refers back to and without atomic ones."""

    def flaw(self) -> str | None:
        """Say what is wrong with the bound itself."""
        return flaw_of(self.regex)

    def keywords(self, kind: str) -> JsonObject:
        """Return what it says about the JSON type *kind*."""
        return {"pattern": self.regex} if kind == "string" else EMPTY

    def holds(self, found: object) -> bool:
        """Whether *found* matches."""
        return not isinstance(found, str) or regex(self.regex).found_in(found, Meter(CHECK_STEPS))


Bound: TypeAlias = Range | Length | Pattern

"""The keywords of JSON Schema without sub-schemas, such as `minimum`: the JSON types of each, and its check."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence, Sized
from fractions import Fraction
from typing import Final, TypeAlias, cast

from agentrail.tools.json_schema.nodes import KINDS, Holds
from agentrail.tools.json_schema.regex import Regex
from agentrail.values.json import Json
from agentrail.values.meter import Meter

_Number: TypeAlias = int | float
_Maker: TypeAlias = Callable[[Json, Meter], Holds | None]
"""Function that makes a keyword's check from its value, in counted steps; `None` if such a value checks nothing."""

_NUMBERS: Final = ("integer", "number")
_FRACTION: Final = 50
"""The steps that one exact division counts as."""
_EXPRESSION: Final = 200
"""The steps that compiling the smallest regular expression counts as."""
_WRITTEN: Final = 3
"""The steps that turning one part of a value into text counts as."""


def _compared(compare: Callable[[_Number, _Number], bool]) -> _Maker:
    def make(said: Json, _: Meter) -> Holds:
        limit = cast("_Number", said)
        return lambda found, _: compare(cast("_Number", found), limit)

    return make


def _counted(compare: Callable[[int, int], bool]) -> _Maker:
    def make(said: Json, _: Meter) -> Holds:
        limit = cast("int", said)
        return lambda found, _: compare(len(cast("Sized", found)), limit)

    return make


def _multiple(said: Json, _: Meter) -> Holds:
    unit = cast("_Number", said)

    def holds(found: Json, meter: Meter) -> bool:
        number = cast("_Number", found)
        if not isinstance(unit, float):
            return not number % unit
        quotient = number / unit
        try:
            return int(quotient) == quotient
        except OverflowError:
            meter.spend(_FRACTION)
            return (Fraction(number) / Fraction(unit)).denominator == 1

    return holds


def _pattern(said: Json, meter: Meter) -> Holds:
    found_in = expression(str(said), meter).found_in
    return lambda found, meter: found_in(cast("str", found), meter)


def _one_of(said: Json, meter: Meter) -> Holds:
    options = frozenset(_key(one, meter) for one in cast("Sequence[Json]", said))
    return lambda found, meter: _key(found, meter) in options


def _same_as(said: Json, meter: Meter) -> Holds:
    return _one_of((said,), meter)


def _unique(said: Json, _: Meter) -> Holds | None:
    def holds(found: Json, meter: Meter) -> bool:
        items = cast("Sequence[Json]", found)
        return len({_key(item, meter) for item in items}) == len(items)

    return holds if said else None


def _all_there(said: Json, _: Meter) -> Holds:
    names = cast("Sequence[str]", said)

    def holds(found: Json, meter: Meter) -> bool:
        meter.spend(len(names))
        return all(name in cast("Mapping[str, Json]", found) for name in names)

    return holds


def _dependent(said: Json, _: Meter) -> Holds:
    needed = cast("Mapping[str, Sequence[str]]", said)

    def holds(found: Json, meter: Meter) -> bool:
        there = cast("Mapping[str, Json]", found)
        meter.spend(len(needed))
        for name, names in needed.items():
            if name in there:
                meter.spend(len(names))
                if not all(other in there for other in names):
                    return False
        return True

    return holds


LEAVES: Final[Mapping[str, tuple[tuple[str, ...], _Maker]]] = {
    "minimum": (_NUMBERS, _compared(operator.ge)),
    "exclusiveMinimum": (_NUMBERS, _compared(operator.gt)),
    "maximum": (_NUMBERS, _compared(operator.le)),
    "exclusiveMaximum": (_NUMBERS, _compared(operator.lt)),
    "multipleOf": (_NUMBERS, _multiple),
    "minLength": (("string",), _counted(operator.ge)),
    "maxLength": (("string",), _counted(operator.le)),
    "pattern": (("string",), _pattern),
    "minItems": (("array",), _counted(operator.ge)),
    "maxItems": (("array",), _counted(operator.le)),
    "uniqueItems": (("array",), _unique),
    "minProperties": (("object",), _counted(operator.ge)),
    "maxProperties": (("object",), _counted(operator.le)),
    "required": (("object",), _all_there),
    "dependentRequired": (("object",), _dependent),
    "enum": (KINDS, _one_of),
    "const": (KINDS, _same_as),
}


def expression(pattern: str, meter: Meter) -> Regex:
    """Compile *pattern*; raise `UnusableError` if it cannot be used, `TooManyStepsError` if *meter* runs out."""
    meter.spend(_EXPRESSION + len(pattern))
    made = Regex(pattern)
    meter.spend(made.work)
    return made


def _key(found: Json, meter: Meter) -> tuple[bool, Json]:
    """Return a hashable key, equal for equal JSON: 1 and 1.0 are equal, 1 and `True` are not."""
    if isinstance(found, str | int | float) or found is None:
        meter.spend(1)
        return isinstance(found, bool), found
    return True, _text(found, meter)


def _text(found: Json, meter: Meter) -> str:
    """Return *found* as text, the same text for equal JSON values."""
    meter.spend(_WRITTEN)
    if isinstance(found, Mapping):
        pairs = (f"{json.dumps(name)}:{_text(found[name], meter)}" for name in sorted(found))
        return f"{{{','.join(pairs)}}}"
    if isinstance(found, Sequence) and not isinstance(found, str):
        return f"[{','.join(_text(item, meter) for item in found)}]"
    if isinstance(found, float) and found.is_integer():
        return str(int(found))
    return json.dumps(found)

"""The quick check: an object of plain properties, which is what most tools take.

It says yes or no as the whole engine does, in one look at each property; the engine is asked for the reasons of a no.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Final, TypeAlias, cast

from agentrail.values.json import Json, JsonObject

Fits: TypeAlias = Callable[[JsonObject], bool]

_KINDS: Final = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "null": (NoneType,)}
_SILENT: Final = {"title", "description", "default", "examples", "$schema", "$comment", "deprecated"}
"""Keywords that admit everything."""
_OBJECT: Final = _SILENT | {"type", "properties", "required", "additionalProperties"}
_PROPERTY: Final = _SILENT | {"type", "enum"}


def flat_check(schema: JsonObject) -> Fits | None:
    """Return a check for *schema*, or `None` if more than this module knows is needed."""
    if schema.get("type") != "object" or schema.get("additionalProperties") is not False or schema.keys() - _OBJECT:
        return None
    kinds: dict[str, frozenset[type]] = {}
    choices: dict[str, frozenset[tuple[bool, Json]]] = {}
    for name, said in cast("Mapping[str, Json]", schema.get("properties", {})).items():
        types = _types_of(said)
        if types is None:
            return None
        kinds[name] = types
        enum = cast("JsonObject", said).get("enum")
        if enum is not None:
            choices[name] = frozenset(_same(one) for one in cast("Sequence[Json]", enum) if _is_plain(one))
    required = frozenset(cast("Sequence[str]", schema.get("required", ())))
    return _check(kinds, choices, required)


def _types_of(said: Json) -> frozenset[type] | None:
    if not isinstance(said, Mapping) or "type" not in said or said.keys() - _PROPERTY:
        return None
    named = said["type"]
    names = (named,) if isinstance(named, str) else cast("Sequence[str]", named)
    if any(name not in _KINDS for name in names):
        return None
    return frozenset(kind for name in names for kind in _KINDS[name])


def _check(
    kinds: Mapping[str, frozenset[type]], choices: Mapping[str, frozenset[tuple[bool, Json]]], required: frozenset[str]
) -> Fits:
    def fits(args: JsonObject) -> bool:
        for name, found in args.items():
            if name not in kinds or type(found) not in kinds[name]:
                return False
            if name in choices and _same(found) not in choices[name]:
                return False
        return args.keys() >= required

    return fits


def _same(found: Json) -> tuple[bool, Json]:
    """Return what is equal for equal JSON: 1 and 1.0 are one number, but `True` is none."""
    return isinstance(found, bool), found


def _is_plain(found: Json) -> bool:
    return found is None or isinstance(found, str | int | float)

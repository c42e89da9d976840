"""Validates the arguments of tool calls against their schema; arguments whose check takes too many steps are refused.

`plain_check` is a quick check for schemas of objects, lists and plain values, which most tools have. It gives the same
verdict as the library jsonschema, which then only runs to explain why arguments do not fit.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import lru_cache
from types import NoneType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeGuard, cast

from agentrail.tools.json_schema.explain import clip, explain
from agentrail.values.argument_checks import checked
from agentrail.values.json import FrozenObject, Json, JsonObject, canonical_once
from agentrail.values.step_budget import CHECK_STEPS, RESPONSE_STEPS, Meter, TooManyStepsError
from agentrail.values.tools import ToolSpec

if TYPE_CHECKING:  # imported late: it imports jsonschema, and most processes can do without
    from agentrail.tools.json_schema.metered import ReadySchema

Fits: TypeAlias = Callable[[Json], bool]

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (NoneType,),
    "array": (tuple, list),
    "object": (FrozenObject, dict),
}
_NOTES: Final[Mapping[str, tuple[type, ...]]] = {
    "title": (str,),
    "description": (str,),
    "$comment": (str,),
    "default": (object,),
    "examples": (list,),
    "deprecated": (bool,),
}
"""Keywords that reject no value, with the types of what they say."""
_LIMITS: Final[Mapping[str, tuple[frozenset[type], Callable[[float, float], bool]]]] = {
    "minimum": (frozenset({int, float}), operator.ge),
    "maximum": (frozenset({int, float}), operator.le),
    "minLength": (frozenset({str}), operator.ge),
    "maxLength": (frozenset({str}), operator.le),
    "minItems": (frozenset({tuple, list}), operator.ge),
    "maxItems": (frozenset({tuple, list}), operator.le),
}
"""Keywords that limit a number or a length, with the types that they apply to."""
_PLAIN: Final = {"type", "enum", "properties", "required", "additionalProperties", "items", *_NOTES, *_LIMITS}


def plain_check(schema: Json) -> Fits | None:
    """Return a quick check for a plain *schema*; `None` if the schema needs the library, or is none."""
    if not schema and isinstance(schema, dict):
        return _anything
    names = _type_names(schema)
    if not names or not isinstance(schema, dict) or not schema.keys() <= _PLAIN or not _are_notes(schema):
        return None
    types = frozenset(kind for name in names for kind in _KINDS[name])
    parts = [_enum_check(schema, names), _limits_check(schema)]
    if "object" in names:
        parts.append(_object_check(schema))
    if "array" in names:
        parts.append(_list_check(schema))
    if None in parts:
        return None
    checks = [check for check in cast("list[Fits]", parts) if check is not _anything]

    def fits(value: Json) -> bool:
        if type(value) not in types:
            return False
        for check in checks:  # noqa: SIM110 - a generator for each value would take longer than the checks
            if not check(value):
                return False
        return True

    return fits


def _anything(_: Json) -> bool:
    return True


def _type_names(schema: Json) -> Sequence[str]:
    """Return the names of types in *schema*; empty if it has none, or they are none."""
    named = schema.get("type") if isinstance(schema, dict) else None
    names = [named] if isinstance(named, str) else named
    return names if _are_texts(names) and _KINDS.keys() >= {*names} else ()


def _are_texts(value: Json) -> TypeGuard[list[str]]:
    """Whether *value* is a list of texts, and none is there twice."""
    return (
        isinstance(value, list)
        and all(isinstance(item, str) for item in value)
        and len({*map(str, value)}) == len(value)
    )


def _are_notes(schema: JsonObject) -> bool:
    return all(isinstance(schema[keyword], types) for keyword, types in _NOTES.items() if keyword in schema)


def _enum_check(schema: JsonObject, names: Sequence[str]) -> Fits | None:
    if "enum" not in schema:
        return _anything
    enum = schema["enum"]
    if not isinstance(enum, list) or not {"array", "object"}.isdisjoint(names):
        return None
    choices = frozenset(_same(option) for option in enum if _is_plain(option))
    return lambda value: _same(value) in choices


def _same(value: Json) -> tuple[bool, Json]:
    """Return a key that is equal for equal JSON: 1 and 1.0 are equal, 1 and `True` are not."""
    return isinstance(value, bool), value


def _is_plain(value: Json) -> bool:
    return value is None or isinstance(value, str | int | float)


def _limits_check(schema: JsonObject) -> Fits | None:
    limits = [(types, compare, schema[keyword]) for keyword, (types, compare) in _LIMITS.items() if keyword in schema]
    if not all(type(limit) is int and (limit >= 0 or int in types) for types, _, limit in limits):
        return None
    if not limits:
        return _anything

    def fits(value: Json) -> bool:
        size = value if isinstance(value, int | float) or value is None else len(cast("Sized", value))
        return all(
            type(value) not in types or compare(cast("float", size), cast("int", limit))
            for types, compare, limit in limits
        )

    return fits


def _object_check(schema: JsonObject) -> Fits | None:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    more = schema.get("additionalProperties", True)
    others = (_anything if more else None) if isinstance(more, bool) else plain_check(more)
    if not isinstance(properties, dict) or not _are_texts(required) or (others is None and more is not False):
        return None
    checks = {name: plain_check(child) for name, child in properties.items()}
    if None in checks.values():
        return None
    required_names = frozenset(required)

    def fits(value: Json) -> bool:
        if not isinstance(value, dict):
            return True
        for name, item in value.items():
            check = checks.get(name, others)
            if check is None or not check(item):
                return False
        return value.keys() >= required_names

    return fits


def _list_check(schema: JsonObject) -> Fits | None:
    if "items" not in schema or schema["items"] is True:
        return _anything
    check = plain_check(schema["items"])
    return None if check is None else lambda value: not isinstance(value, tuple | list) or all(map(check, value))


class Validator(Protocol):
    """A function from the arguments of a call to the reason why they do not fit a schema, or `None` if they fit."""

    def __call__(self, args: JsonObject, meter: Meter | None = None) -> str | None:
        """Return why *args* do not fit, or `None`; *meter* counts the steps left for all checks of one response."""


MAX_SCHEMAS: Final = 1_024
"""The most schemas that are kept ready."""

SMALL: Final = 4 * 1024
"""The most characters of a schema of which so many are kept: ready, it takes thirty times as many bytes."""

MAX_LARGE: Final = 64
"""The most larger schemas that are kept ready: a client may send one after the other, of 64 kB each."""

_TOO_MUCH: Final = (
    f"they cannot be checked (that takes more than {CHECK_STEPS} steps, or too many schemas inside each other);"
    " send less, or simpler ones"
)
_TOO_MANY: Final = (
    f"they cannot be checked (the calls of this response take more than {RESPONSE_STEPS} steps together); make fewer at"
    " once, send less, or simpler ones"
)


@checked
def validator_for(spec: ToolSpec) -> Validator:
    """Return the validator of *spec*: a function from arguments to the reason they do not fit, or `None` if they fit.

    The validator never raises. If the library takes more than `CHECK_STEPS` steps, the arguments are refused.
    """
    return schema_validator(spec.parameters)


def schema_validator(schema: JsonObject) -> Validator:
    """Return the validator of *schema*, as `validator_for` does for the schema of a tool."""
    return _validator(canonical_once(schema))


def schema_problem(parameters: JsonObject) -> str | None:
    """Return why *parameters* cannot be used as a schema for arguments; `None` if they can."""
    schema = canonical_once(parameters)
    if _plain(schema) is not None:
        return None
    ready = _ready(schema)
    return ready if isinstance(ready, str) else None


@lru_cache(maxsize=MAX_SCHEMAS)
def _plain(schema: str) -> Fits | None:
    """Return the quick check for *schema*, a canonical JSON text; `None` if it needs the library, or is none."""
    return plain_check(json.loads(schema))


@lru_cache(maxsize=MAX_SCHEMAS)
def _validator(schema: str) -> Validator:
    fits = _plain(schema)

    def check(args: JsonObject, meter: Meter | None = None) -> str | None:
        if fits is not None and fits(args):
            return None
        ready = _ready(schema)
        if isinstance(ready, str):
            return f"they cannot be checked ({ready})"
        steps = CHECK_STEPS if meter is None else min(CHECK_STEPS, meter.left)
        part = Meter(steps)
        try:
            return explain(ready.faults(args, part))
        except (TooManyStepsError, RecursionError):
            return _TOO_MUCH if steps == CHECK_STEPS else _TOO_MANY
        except Exception as why:  # noqa: BLE001 - a defect in the library must not stop a session
            return f"they cannot be checked ({clip(f'{type(why).__name__}: {why}', 200)})"
        finally:
            if meter is not None:
                meter.left -= steps - max(0, part.left)

    return check


def _ready(schema: str) -> ReadySchema | str:
    """Return *schema*, a canonical JSON text, ready for checks; or the reason why it cannot be used."""
    return (_small_ready if len(schema) <= SMALL else _large_ready)(schema)


def _made_ready(schema: str) -> ReadySchema | str:
    from agentrail.tools.json_schema.dialect import READY_STEPS, FlawError  # noqa: PLC0415 - see above
    from agentrail.tools.json_schema.metered import make_ready  # noqa: PLC0415 - see above

    try:
        return make_ready(json.loads(schema), Meter(READY_STEPS))
    except FlawError as why:
        return str(why)
    except (TooManyStepsError, RecursionError):
        return f"making it ready takes more than {READY_STEPS} steps; make it smaller"


_small_ready: Final = lru_cache(maxsize=MAX_SCHEMAS)(_made_ready)
_large_ready: Final = lru_cache(maxsize=MAX_LARGE)(_made_ready)

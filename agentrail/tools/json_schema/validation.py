"""Validates the arguments of tool calls against their schema; arguments whose check takes too many steps are refused.

`flat_check` is a quick check for schemas of an object whose properties are plain, or lists of plain items, which most
tools have. It gives the same verdict as the full engine. The engine then only runs to explain why arguments do not fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import NoneType
from typing import Final, Protocol, TypeAlias, cast

from agentrail.tools.json_schema.dialect import READY_STEPS, FlawError, meta_node, node_of
from agentrail.tools.json_schema.explain import clip, explain
from agentrail.tools.json_schema.nodes import MAX_NESTED, Check, Node, SchemaFault
from agentrail.values.argument_checks import checked
from agentrail.values.json import Json, JsonObject, canonical, canonical_once
from agentrail.values.step_budget import CHECK_STEPS, RESPONSE_STEPS, Meter, TooManyStepsError
from agentrail.values.tools import ToolSpec

Fits: TypeAlias = Callable[[JsonObject], bool]

_KINDS: Final = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "null": (NoneType,)}
_SILENT: Final = {"title", "description", "default", "examples", "$schema", "$comment", "deprecated"}
"""Keywords that reject no value."""
_OBJECT: Final = _SILENT | {"type", "properties", "required", "additionalProperties"}
_PROPERTY: Final = _SILENT | {"type", "enum"}
_ARRAY: Final = _SILENT | {"type", "items"}
_LIST: Final = frozenset({tuple})


def flat_check(schema: JsonObject) -> Fits | None:
    """Return a fast check for a flat *schema*; `None` if the schema needs the full engine."""
    if schema.get("type") != "object" or schema.get("additionalProperties") is not False or schema.keys() - _OBJECT:
        return None
    kinds: dict[str, frozenset[type]] = {}
    items: dict[str, frozenset[type]] = {}
    choices: dict[str, frozenset[tuple[bool, Json]]] = {}
    for name, property_schema in cast("Mapping[str, Json]", schema.get("properties", {})).items():
        listed = _items_of(property_schema)
        types = _types_of(property_schema) if listed is None else _LIST
        if types is None:
            return None
        kinds[name] = types
        if listed is not None:
            items[name] = listed
        enum = cast("JsonObject", property_schema).get("enum")
        if enum is not None:
            choices[name] = frozenset(_same(option) for option in cast("Sequence[Json]", enum) if _is_plain(option))
    required = frozenset(cast("Sequence[str]", schema.get("required", ())))
    return _check(kinds, items, choices, required)


def _items_of(schema: Json) -> frozenset[type] | None:
    """Return the JSON types of the items if *schema* describes a list of plain ones; else `None`."""
    if (
        not isinstance(schema, Mapping)
        or schema.get("type") != "array"
        or schema.keys() - _ARRAY
        or "items" not in schema
    ):
        return None
    items = schema["items"]
    return None if isinstance(items, Mapping) and "enum" in items else _types_of(items)


def _types_of(schema: Json) -> frozenset[type] | None:
    if not isinstance(schema, Mapping) or "type" not in schema or schema.keys() - _PROPERTY:
        return None
    named = schema["type"]
    names = (named,) if isinstance(named, str) else cast("Sequence[str]", named)
    if any(name not in _KINDS for name in names):
        return None
    return frozenset(kind for name in names for kind in _KINDS[name])


def _check(
    kinds: Mapping[str, frozenset[type]],
    items: Mapping[str, frozenset[type]],
    choices: Mapping[str, frozenset[tuple[bool, Json]]],
    required: frozenset[str],
) -> Fits:
    def fits(args: JsonObject) -> bool:
        for name, value in args.items():
            if name not in kinds or type(value) not in kinds[name]:
                return False
            if name in choices and _same(value) not in choices[name]:
                return False
            if type(value) is tuple and not items[name].issuperset(map(type, cast("Sequence[Json]", value))):
                return False
        return args.keys() >= required

    return fits


def _same(value: Json) -> tuple[bool, Json]:
    """Return a key that is equal for equal JSON: 1 and 1.0 are equal, 1 and `True` are not."""
    return isinstance(value, bool), value


def _is_plain(value: Json) -> bool:
    return value is None or isinstance(value, str | int | float)


class Validator(Protocol):
    """A function from the arguments of a call to the reason why they do not fit a schema, or `None` if they fit."""

    def __call__(self, args: JsonObject, meter: Meter | None = None) -> str | None:
        """Return why *args* do not fit, or `None`; *meter* counts the steps left for all checks of one response."""


MAX_SCHEMAS: Final = 1_024

_TOO_MUCH: Final = (
    f"they cannot be checked (that takes more than {CHECK_STEPS} steps, or {MAX_NESTED} schemas inside each other);"
    " send less, or simpler ones"
)
_TOO_MANY: Final = (
    f"they cannot be checked (the calls of this response take more than {RESPONSE_STEPS} steps together); make fewer at"
    " once, send less, or simpler ones"
)
_TOO_LARGE: Final = f"making it ready takes more than {READY_STEPS} steps; make it smaller"


@checked
def validator_for(spec: ToolSpec) -> Validator:
    """Return the validator of *spec*: a function from arguments to the reason they do not fit, or `None` if they fit.

    The validator never raises. If the full engine takes more than `CHECK_STEPS` steps, the arguments are refused.
    """
    return schema_validator(spec.parameters)


def schema_validator(schema: JsonObject) -> Validator:
    """Return the validator of *schema*, as `validator_for` does for the schema of a tool."""
    return _validator(canonical_once(schema))


def schema_problem(parameters: JsonObject) -> str | None:
    """Return why *parameters* cannot be used as a schema for arguments; `None` if they can."""
    node = _ready(canonical(parameters))
    return node if isinstance(node, str) else None


@lru_cache(maxsize=MAX_SCHEMAS)
def _validator(schema: str) -> Validator:
    parsed: JsonObject = json.loads(schema)
    fits = flat_check(parsed)

    def check(args: JsonObject, meter: Meter | None = None) -> str | None:
        if fits is not None and fits(args):
            return None
        node = _ready(schema)
        if isinstance(node, str):
            return f"they cannot be checked ({node})"
        steps = CHECK_STEPS if meter is None else min(CHECK_STEPS, meter.left)
        part = Meter(steps)
        try:
            return explain(_faults(node, args, part))
        except (TooManyStepsError, RecursionError):
            return _TOO_MUCH if steps == CHECK_STEPS else _TOO_MANY
        except Exception as why:  # noqa: BLE001 - a defect in the engine must not stop a session
            return f"they cannot be checked ({clip(f'{type(why).__name__}: {why}', 200)})"
        finally:
            if meter is not None:
                meter.left -= steps - max(0, part.left)

    return check


@lru_cache(maxsize=MAX_SCHEMAS)
def _ready(schema: str) -> Node | str:
    """Return the node compiled from *schema*, a canonical JSON text; or the reason why it cannot be used."""
    parsed = json.loads(schema)
    try:
        return explain(_faults(meta_node(), parsed, Meter(READY_STEPS))) or node_of(parsed, Meter(READY_STEPS))
    except FlawError as why:
        return str(why)
    except (TooManyStepsError, RecursionError):
        return _TOO_LARGE


def _faults(node: Node, instance: Json, meter: Meter) -> list[SchemaFault]:
    """Return the faults of *instance*. If the steps run out, return those found so far, or raise if there are none."""
    faults: list[SchemaFault] = []
    try:
        Check(meter).apply(node, instance, None, faults)
    except (TooManyStepsError, RecursionError):
        if not faults:
            raise
    return faults

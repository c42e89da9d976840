"""jsonschema, the measure of our engine: draft 2020-12, tuples are arrays, 1.0 is no integer, nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import cast

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from jsonschema.validators import extend  # pyright: ignore[reportUnknownVariableType]  # it is untyped
from referencing import Registry

from agentrail.models import Json


def _is_array(_: object, found: object) -> bool:
    return isinstance(found, list | tuple)


def _is_integer(_: object, found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


@cache
def _dialect() -> type[Validator]:
    types = Draft202012Validator.TYPE_CHECKER.redefine_many({"array": _is_array, "integer": _is_integer})
    made = extend(Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]  # it is untyped
    return cast("type[Validator]", made)


def reference_fits(schema: Mapping[str, Json] | bool, found: Json) -> bool:
    """Whether *found* fits *schema* for jsonschema."""
    said = (
        {keyword: one for keyword, one in schema.items() if keyword != "$schema"}
        if isinstance(schema, Mapping)
        else schema
    )
    return _dialect()(said, registry=Registry()).is_valid(found)


def reference_takes(schema: Json) -> bool:
    """Whether *schema* is one by the official schema of schemas."""
    return _dialect()(_dialect().META_SCHEMA).is_valid(schema)

"""Rewrites a JSON Schema as the Messages API takes it for answers, as the official SDK does.

The API knows few keywords. Those that only narrow a value (`minimum`, `pattern`, …) move into the description: the
session checks each answer against the whole schema. What the API cannot express (an object with any keys, a tuple, a
class that contains itself) makes the answer come by a tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrail.values.json import Json, JsonObject, canonical

OLDER: Final = ("claude-2", "claude-3", "claude-instant", "claude-opus-4-0", "claude-opus-4-2", "claude-sonnet-4-0")
"""Prefixes of the names of models that take no schema for their answer, with `OLDEST_SONNET_4`."""

OLDEST_SONNET_4: Final = "claude-sonnet-4-2"
"""Prefix of the dated names of Claude Sonnet 4, which takes no schema either."""

FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
"""The formats of texts that the API knows."""

LOCAL: Final = "#/$defs/"
"""The beginning of the references that the API follows."""

COPIED: Final = frozenset({"type", "enum", "const", "description", "title", "required", "default"})
"""Keywords that are copied unchanged."""

SILENT: Final = frozenset({"$schema", "$comment", "examples", "deprecated"})
"""Keywords that are left out, because they demand nothing."""

NARROWING: Final = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "multipleOf",
        "pattern",
        "uniqueItems",
    }
)
"""Keywords that are written into the description."""


class InexpressibleError(ValueError):
    """The API cannot express a schema."""


def takes_schema(model: str) -> bool:
    """Whether *model* takes the schema of an answer."""
    return not model.startswith((*OLDER, OLDEST_SONNET_4))


def strict_form(schema: JsonObject) -> JsonObject | None:
    """Return *schema* in the keywords of the API; `None` if it cannot be expressed."""
    definitions = schema.get("$defs", {})
    if not isinstance(definitions, Mapping):
        return None
    try:
        rest = _strict({key: item for key, item in schema.items() if key != "$defs"})
        defined = {name: _strict(below) for name, below in definitions.items()}
    except InexpressibleError:
        return None
    if any(_contains_itself(name, definitions) for name in definitions):
        return None
    return {**rest, "$defs": defined} if defined else rest


def _strict(schema: Json) -> dict[str, Json]:
    if not isinstance(schema, Mapping):
        raise InexpressibleError
    if "$ref" in schema:
        return _reference(schema)
    strict: dict[str, Json] = {}
    narrowed: dict[str, Json] = {}
    for key, item in schema.items():
        if key in COPIED:
            strict[key] = item
        elif key == "properties" and isinstance(item, Mapping):
            strict[key] = {name: _strict(below) for name, below in item.items()}
        elif key == "items":
            strict[key] = _strict(item)
        elif key == "anyOf" and isinstance(item, list | tuple):
            strict[key] = [_strict(below) for below in item]
        elif key in {"format", "minItems"} and (item in FORMATS if key == "format" else item in {0, 1}):
            strict[key] = item
        elif key in NARROWING:
            narrowed[key] = item
        elif key not in SILENT and key != "additionalProperties":
            raise InexpressibleError
    return _describe(_check_type(strict, schema), narrowed)


def _reference(schema: JsonObject) -> dict[str, Json]:
    """Return a reference with nothing beside it but a description; the API takes no more."""
    target = schema["$ref"]
    if not isinstance(target, str) or not target.startswith(LOCAL) or schema.keys() - {"$ref", "description"} - SILENT:
        raise InexpressibleError
    return {"$ref": target}


def _check_type(strict: dict[str, Json], schema: JsonObject) -> dict[str, Json]:
    """Check that each value has a type that the API knows, and close objects."""
    kinds = strict.get("type")
    if isinstance(kinds, list | tuple):
        if "object" in kinds or "array" in kinds:
            raise InexpressibleError
        return strict
    if kinds is None and not strict.keys() & {"anyOf", "enum", "const"}:
        raise InexpressibleError
    if kinds == "object":
        if not strict.get("properties") or schema.get("additionalProperties", False) is not False:
            raise InexpressibleError
        return {**strict, "additionalProperties": False}
    if kinds == "array" and "items" not in strict:
        raise InexpressibleError
    return strict


def _describe(strict: dict[str, Json], narrowed: JsonObject) -> dict[str, Json]:
    if not narrowed:
        return strict
    constraints = ", ".join(
        f"{key}: {item if isinstance(item, str) else canonical(item)}" for key, item in narrowed.items()
    )
    old_description = strict.get("description")
    return {
        **strict,
        "description": f"{old_description}\n\n{{{constraints}}}"
        if isinstance(old_description, str)
        else f"{{{constraints}}}",
    }


def _contains_itself(name: str, definitions: JsonObject) -> bool:
    """Whether the definition *name* refers to itself, directly or by others."""
    visited: set[str] = set()
    waiting = [definitions[name]]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            target = part.get("$ref")
            if isinstance(target, str):
                below = target.removeprefix(LOCAL)
                if below == name or below not in definitions:
                    return True
                if below not in visited:
                    visited.add(below)
                    waiting.append(definitions[below])
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)
    return False

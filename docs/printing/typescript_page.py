"""The JSON of events and replies as types of TypeScript, made of the OpenAPI document of the host."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast

from agentrail.api.openapi import document
from agentrail.values.events.catalogue import EVENTS

Schema: TypeAlias = Mapping[str, object]

ROOTS: Final = ("Envelope", "WholeReplyView", "StatusView", "Problem")
"""The components that the page begins with; those that they refer to follow."""

EVENT: Final = "Event"
"""Component for the base class of events, which is written as the union of all events."""

_REFERENCE: Final = "#/components/schemas/"
_PLAIN: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def declarations() -> list[str]:
    """Return the lines of the declarations: an interface for each object, a type for all else."""
    components = _components()
    lines: list[str] = []
    for name in _reached(components):
        schema = components[name]
        about = schema.get("description")
        comment = [f"/** {' '.join(str(about).split())} */"] if about else []
        lines += ["", *comment, *_declaration(name, schema)] if lines else [*comment, *_declaration(name, schema)]
    return lines


def _components() -> dict[str, Schema]:
    schemas = cast("Schema", cast("Schema", document()["components"])["schemas"])
    components = {name: cast("Schema", schema) for name, schema in schemas.items()}
    events = [{"$ref": f"{_REFERENCE}{event.__name__}"} for event in EVENTS]
    components[EVENT] = {"description": "An event of a session: its tag `$` says which.", "anyOf": events}
    return components


def _reached(components: Mapping[str, Schema]) -> list[str]:
    """Return the names of the components that the roots refer to, in the order in which they are met."""
    names: dict[str, None] = {}
    waiting = [*ROOTS]
    while waiting:
        name = waiting.pop(0)
        if name not in names:
            names[name] = None
            waiting += _references(components[name])
    return [*names]


def _references(part: object) -> Iterator[str]:
    if isinstance(part, Mapping):
        schema = cast("Schema", part)
        if "$ref" in schema:
            yield str(schema["$ref"]).removeprefix(_REFERENCE)
        part = [item for key, item in schema.items() if key != "discriminator"]
    if isinstance(part, list | tuple):
        for item in cast("Sequence[object]", part):
            yield from _references(item)


def _declaration(name: str, schema: Schema) -> list[str]:
    if "properties" not in schema:
        return [f"export type {name} = {_type_of(schema)};"]
    return [f"export interface {name} {{", *_members(schema), "}"]


def _members(schema: Schema) -> Iterator[str]:
    required = cast("Sequence[str]", schema.get("required", ()))
    for key, part in cast("Mapping[str, Schema]", schema["properties"]).items():
        mark = "" if key in required else "?"
        yield f"  {key}{mark}: {_type_of(part)};"


def _type_of(schema: Schema) -> str:
    """Return the type of the values of *schema*."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REFERENCE)
    if "anyOf" in schema:
        return _union([_type_of(part) for part in cast("Sequence[Schema]", schema["anyOf"])])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return _union([json.dumps(choice) for choice in cast("Sequence[object]", schema["enum"])])
    kind = schema.get("type")
    if kind == "array":
        return _array(schema)
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {_type_of(cast('Schema', values)) if isinstance(values, Mapping) else 'unknown'}>"
    return _PLAIN[kind] if isinstance(kind, str) else "unknown"


def _array(schema: Schema) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(map(_type_of, cast('Sequence[Schema]', schema['prefixItems'])))}]"
    items = schema.get("items")
    of = _type_of(cast("Schema", items)) if isinstance(items, Mapping) else "unknown"
    return f"({of})[]" if " " in of and not of.startswith("Record") else f"{of}[]"


def _union(types: Sequence[str]) -> str:
    return " | ".join(dict.fromkeys(types))

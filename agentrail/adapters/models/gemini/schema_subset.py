"""Reduces a JSON Schema to the keywords that the Gemini API knows; it refuses some of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrail.values.json import Json, JsonObject

PLAIN: Final = frozenset(
    {
        "$anchor",
        "$id",
        "$ref",
        "description",
        "enum",
        "format",
        "maximum",
        "maxItems",
        "minimum",
        "minItems",
        "propertyOrdering",
        "required",
        "title",
        "type",
    }
)
"""Keywords that are copied unchanged; `schema_subset` rewrites `$ref`."""

ONE: Final = frozenset({"additionalProperties", "items"})
"""Keywords that hold one schema, or a boolean."""

SEVERAL: Final = frozenset({"anyOf", "oneOf", "prefixItems"})
"""Keywords that hold a list of schemas."""

NAMED: Final = frozenset({"$defs", "properties"})
"""Keywords that hold an object of schemas, by name."""

DEFINITIONS: Final = "definitions"
"""The name of `$defs` in older drafts of JSON Schema."""


def schema_subset(schema: Json) -> Json:
    """Return *schema* without the keywords that the API does not know.

    The full schema still holds: the arguments of each call are checked against it, and the model is told what does not
    fit. `const` becomes an `enum` with one value.
    """
    if not isinstance(schema, Mapping):
        return schema
    merged = _merge_all_of(schema)
    subset: dict[str, Json] = {}
    for key, item in merged.items():
        name = "$defs" if key == DEFINITIONS else key
        if name in NAMED and isinstance(item, Mapping):
            subset[name] = {inner: schema_subset(below) for inner, below in item.items()}
        elif name in SEVERAL and isinstance(item, list | tuple):
            subset[name] = [schema_subset(below) for below in item]
        elif name in ONE:
            subset[name] = schema_subset(item)
        elif name == "$ref" and isinstance(item, str):
            subset[name] = item.replace(f"#/{DEFINITIONS}/", "#/$defs/")
        elif name in PLAIN:
            subset[name] = item
    if "const" in merged:
        subset["enum"] = [merged["const"]]
    return subset


def _merge_all_of(schema: JsonObject) -> JsonObject:
    """Return *schema* with the keywords of its `allOf` merged in, if that has exactly one member."""
    members = schema.get("allOf")
    if isinstance(members, list | tuple) and len(members) == 1 and isinstance(members[0], Mapping):
        return {**members[0], **schema}
    return schema

"""JSON Schemas as the Gemini API takes them: it knows a part of the keywords, and refuses some of the others."""

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
"""Keywords that stay as they are."""

ONE: Final = frozenset({"additionalProperties", "items"})
"""Keywords that hold a schema, or a flag."""

SEVERAL: Final = frozenset({"anyOf", "oneOf", "prefixItems"})
"""Keywords that hold a list of schemas."""

NAMED: Final = frozenset({"$defs", "properties"})
"""Keywords that hold schemas by name."""

DEFINITIONS: Final = "definitions"
"""What `$defs` was called before."""


def fitted(schema: Json) -> Json:
    """Return *schema* without the keywords that the API does not know.

    What they ask for is checked when the call comes, and the model is told; a constant becomes an enumeration of one.
    """
    if not isinstance(schema, Mapping):
        return schema
    whole = _unfolded(schema)
    found: dict[str, Json] = {}
    for key, item in whole.items():
        name = "$defs" if key == DEFINITIONS else key
        if name in NAMED and isinstance(item, Mapping):
            found[name] = {inner: fitted(below) for inner, below in item.items()}
        elif name in SEVERAL and isinstance(item, list | tuple):
            found[name] = [fitted(below) for below in item]
        elif name in ONE:
            found[name] = fitted(item)
        elif name == "$ref" and isinstance(item, str):
            found[name] = item.replace(f"#/{DEFINITIONS}/", "#/$defs/")
        elif name in PLAIN:
            found[name] = item
    if "const" in whole:
        found["enum"] = [whole["const"]]
    return found


def _unfolded(schema: JsonObject) -> JsonObject:
    """Return *schema* with what an `allOf` of one member says."""
    members = schema.get("allOf")
    if isinstance(members, list | tuple) and len(members) == 1 and isinstance(members[0], Mapping):
        return {**members[0], **schema}
    return schema

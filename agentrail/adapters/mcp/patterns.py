"""The regular expressions in the schemas of a server: told to the model, and left to the server to try.

Arguments are checked where all sessions run, and nothing can stop a regular expression that takes for ever. Those that
have no choice to make are tried all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from agentrail.values.json import Json, JsonObject

_CHOICE: Final = re.compile(r"[*+?|(]|\{\d*,")
"""What makes a matcher go back and try again."""

_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords that hold values, not schemas."""

_NAMED: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas", "patternProperties"})
"""Keywords that hold schemas by names of the server's choice."""


def told(schema: JsonObject) -> dict[str, Json]:
    """Return *schema* with the patterns that could take long as a part of the descriptions."""
    found: dict[str, Json] = {}
    for keyword, said in schema.items():
        if keyword in _VALUES:
            found[keyword] = said
        elif keyword in _NAMED and isinstance(said, Mapping):
            found[keyword] = {name: _told(one) for name, one in said.items()}
        else:
            found[keyword] = _told(said)
    pattern = found.get("pattern")
    if isinstance(pattern, str) and _CHOICE.search(pattern):
        del found["pattern"]
        found["description"] = f"{found.get('description', '')} Must match `{pattern}`.".lstrip()
    keys = found.get("patternProperties")
    if isinstance(keys, Mapping) and any(map(_CHOICE.search, keys)):
        del found["patternProperties"]
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            found.pop(keyword, None)  # they are about the keys that do not match
    return found


def _told(said: Json) -> Json:
    if isinstance(said, Mapping):
        return told(said)
    if isinstance(said, Sequence) and not isinstance(said, str):
        return tuple(_told(one) for one in said)
    return said

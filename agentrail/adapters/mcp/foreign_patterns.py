r"""The regular expressions in the schemas of a server that we cannot search for: told to the model, left to the server.

Those are expressions of other languages than ours (`\p{L}`), and the few that cannot be searched for in counted steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from agentrail.tools.json_schema.regex_parser import UnusableError
from agentrail.tools.json_schema.simple_keywords import expression
from agentrail.values.json import Json, JsonObject
from agentrail.values.meter import Meter

_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords that hold values, not schemas."""

_NAMED: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas", "patternProperties"})
"""Keywords that hold schemas by names of the server's choice."""


def told(schema: JsonObject, meter: Meter) -> dict[str, Json]:
    """Return *schema* with the patterns that cannot be searched for as a part of the descriptions.

    Raise `TooManyStepsError` if looking at the patterns takes more steps than are left.
    """
    found: dict[str, Json] = {}
    for keyword, said in schema.items():
        if keyword in _VALUES:
            found[keyword] = said
        elif keyword in _NAMED and isinstance(said, Mapping):
            found[keyword] = {name: _told(one, meter) for name, one in said.items()}
        else:
            found[keyword] = _told(said, meter)
    pattern = found.get("pattern")
    if isinstance(pattern, str) and not _is_usable(pattern, meter):
        del found["pattern"]
        found["description"] = f"{found.get('description', '')} Must match `{pattern}`.".lstrip()
    keys = found.get("patternProperties")
    if isinstance(keys, Mapping) and not all(_is_usable(key, meter) for key in keys):
        del found["patternProperties"]
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            found.pop(keyword, None)  # they are about the keys that do not match
    return found


def _is_usable(pattern: str, meter: Meter) -> bool:
    try:
        expression(pattern, meter)
    except UnusableError:
        return False
    return True


def _told(said: Json, meter: Meter) -> Json:
    if isinstance(said, Mapping):
        return told(said, meter)
    if isinstance(said, Sequence) and not isinstance(said, str):
        return tuple(_told(one, meter) for one in said)
    return said

"""Schemas of 64 kB, as strangers may send them, whose references, ids and parts are made to take long to read."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Final

from agentrail.models import Json, JsonObject
from tests.kit import freeze_object

SIZE: Final = 64 * 1024
"""Bytes of a schema."""

ITEMS: Final = 5_000
"""The most parts of one, as JSON of strangers has no more than 10,000 items."""

Make = Callable[[int], Json]


def defined(make: Make, *, above: Json = True, size: int = SIZE, **more: Json) -> JsonObject:
    """Return a schema with as many definitions as fit: *make* makes each from its number, and *above* is the last."""
    parts: dict[str, Json] = {}
    room = size - len(json.dumps([above, more])) - 100
    for number in count():
        part = make(number)
        room -= len(json.dumps(part, separators=(",", ":"))) + len(f'"d{number}":,')
        if room < 0 or number == ITEMS:
            break
        parts[f"d{number}"] = part
    return freeze_object({"type": "object", **more, "$defs": {**parts, f"d{len(parts)}": above}}, [10 * SIZE])


def nested(depth: int, name: str, inner: Make) -> JsonObject:
    """Return a schema with ids inside each other, and parts made by *inner* in the innermost."""
    schema: dict[str, Json] = {
        "$id": name,
        "$defs": defined(inner, size=SIZE - (depth + 1) * (len(name) + 20))["$defs"],
    }
    for _ in range(depth):
        schema = {"$id": name, "not": schema}
    return freeze_object({"type": "object", **schema}, [10 * SIZE])


LARGE_SCHEMAS: Final[dict[str, Callable[[], JsonObject]]] = {
    "anchors and references": lambda: defined(lambda n: {"$anchor": f"a{n}", "$ref": f"#a{n + 1}"}, above={}),
    "anchors, and references to the first": lambda: defined(lambda n: {"$anchor": f"a{n}", "not": {"$ref": "#a0"}}),
    "dynamic anchors": lambda: defined(lambda n: {"$dynamicAnchor": f"a{n}", "not": {"$dynamicRef": "#a0"}}),
    "ids and references": lambda: defined(lambda n: {"$id": f"i{n}", "not": {"$ref": "i0"}}),
    "ids that are whole URIs": lambda: defined(lambda n: {"$id": f"http://a/{n}/b", "not": {"$ref": "../0/b"}}),
    "one anchor in many ids": lambda: defined(lambda n: {"$id": f"i{n}", "$anchor": "a", "not": {"$ref": "i0#a"}}),
    "long ids in each other": lambda: nested(25, "x" * 70 + "/", lambda n: {"$id": f"b{n}", "$ref": f"b{n}#"}),
    "ids of many segments in each other": lambda: nested(25, "a/" * 38, lambda n: {"$id": f"b{n}"}),
    "ids that climb": lambda: nested(25, "a/" * 38, lambda n: {"$id": "../" * 30 + str(n)}),
    "pointers": lambda: defined(lambda n: {"not": {"$ref": f"#/$defs/d{n}/x"}, "x": {}}),
    "pointers with escapes": lambda: defined(lambda _: {"not": {"$ref": "#/%24%64efs/d0/%78"}, "x": {}}),
    "long pointers": lambda: defined(
        lambda _: {"$ref": "#" + "/not" * 40}, **json.loads('{"not":' * 40 + "{}" + "}" * 40)
    ),
    "pointers to unknown places": lambda: defined(lambda n: {"$ref": f"#/x/d{n}"}),
    "a chain of references": lambda: defined(lambda n: {"$ref": f"#/$defs/d{n + 1}"}),
    "small schemas": lambda: defined(lambda _: {"multipleOf": 1e-300}),
    "no schemas": lambda: defined(lambda _: True, above={}),
    "examples of lists": lambda: defined(lambda _: {"examples": [[[]]]}),
    "choices that are objects": lambda: defined(lambda n: {"enum": [{"a": n}]}),
    "patterns": lambda: defined(lambda n: {"pattern": f"a{n}"}),
    "patterns of 4 kB": lambda: defined(lambda n: {"pattern": f"{n}" + "a?" * 2_000}),
    "sets of characters": lambda: defined(
        lambda n: {"pattern": f"(?i){n}[" + "".join(map(chr, range(0x400, 0x400 + 600))) + "]"}
    ),
    "what is not evaluated": lambda: defined(lambda _: {"allOf": [{}], "unevaluatedProperties": False}),
    "long names": lambda: defined(lambda n: {"$anchor": "a" * 20_000 + str(n)}),
}

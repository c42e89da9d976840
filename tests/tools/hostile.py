"""Schemas and arguments that are made to take long, and a program that times them all in a process of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from agentrail.models import Json, JsonObject
from agentrail.tools import ToolSpec, validator_for
from agentrail.tools.json_schema.validation import schema_problem
from tests.kit import freeze_object

LARGE = 1_000_000
"""Items that a value here may have: more than the border lets through, so that the engine itself is tried."""

MANY: Final = 100_000


def towers(keyword: str, last: Json) -> dict[str, Json]:
    """Definitions d0 to d11, each of ten references to the next one."""
    tower: dict[str, Json] = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(11)}
    return {**tower, "d11": last}


def with_x(schema: Json, **more: Json) -> JsonObject:
    """An object with one property."""
    return {"type": "object", "properties": {"x": schema}, **more}


def top(schema: Mapping[str, Json]) -> JsonObject:
    """An object about which more is said."""
    return {"type": "object", **schema}


def pit(depth: int) -> Json:
    """An object inside of an object, and so on."""
    found: Json = None
    for _ in range(depth):
        found = {"x": found}
    return found


def short_chain(length: int) -> dict[str, Json]:
    """Definitions, each of which refers to the next one."""
    return {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(length)}


def evaluated(depth: int) -> dict[str, Json]:
    """A schema that looks at what is not evaluated, inside of such a schema, and so on."""
    found: dict[str, Json] = {"properties": {"a": True}}
    for _ in range(depth):
        found = {"allOf": [{**found, "unevaluatedProperties": False}]}
    return found


def dependents(height: int) -> dict[str, Json]:
    """Definitions, each of which refers to the next one for each of eight keys."""
    tower: dict[str, Json] = {
        f"d{n}": {"dependentSchemas": {key: {"$ref": f"#/$defs/d{n + 1}"} for key in "abcdefgh"}} for n in range(height)
    }
    return {**tower, f"d{height}": {"required": ["z"]}}


D0: Final[Json] = {"$ref": "#/$defs/d0"}
KEYS: Final[Mapping[str, object]] = {f"k{n}": n for n in range(MANY)}

CHAIN: Final[Mapping[str, Json]] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1_500)} | {"d1500": True}

CASES: Final[Mapping[str, Callable[[], tuple[JsonObject, Mapping[str, object]]]]] = {
    "towers of allOf": lambda: (top({"$ref": "#/$defs/d0", "$defs": towers("allOf", {"type": "object"})}), {}),
    "towers of anyOf": lambda: (with_x(D0, **{"$defs": towers("anyOf", {"type": "string"})}), {"x": 1}),
    "towers of oneOf": lambda: (with_x(D0, **{"$defs": towers("oneOf", {"type": "string"})}), {"x": "a"}),
    "towers that are evaluated": lambda: (
        top(
            {
                "$ref": "#/$defs/d0",
                "$defs": towers("allOf", {"properties": {"a": True}}),
                "unevaluatedProperties": False,
            }
        ),
        {"a": 1},
    ),
    "towers inside of not": lambda: (with_x({"not": {"not": D0}}, **{"$defs": towers("allOf", True)}), {"x": 1}),
    "a pattern that backtracks": lambda: (with_x({"pattern": r"^([a-zA-Z0-9]+\s?)*$"}), {"x": "a" * 40 + "!"}),
    "a pattern that takes too long": lambda: (with_x({"pattern": "(x+x+)+y"}), {"x": "x" * MANY}),
    "many keys, none known": lambda: (top({"additionalProperties": False}), KEYS),
    "many keys of one form": lambda: (top({"additionalProperties": {"type": "string"}}), KEYS),
    "many keys and a pattern": lambda: (top({"patternProperties": {"^(k|k)+$": {"type": "string"}}}), KEYS),
    "many keys with a form": lambda: (top({"propertyNames": {"pattern": "^(k|k)+$"}}), KEYS),
    "many items, none twice": lambda: (with_x({"uniqueItems": True}), {"x": [{"a": [n]} for n in range(MANY)]}),
    "many items, one twice": lambda: (with_x({"uniqueItems": True}), {"x": [*range(20_000), 1.5, True, 1]}),
    "many items, all wrong": lambda: (with_x({"items": {"type": "string"}}), {"x": list(range(20_000))}),
    "many items, looked for": lambda: (with_x({"contains": {"enum": ["a", ["b"]]}}), {"x": [["c"]] * MANY}),
    "many choices": lambda: (with_x({"enum": [f"v{n}" for n in range(4_000)]}), {"x": "z"}),
    "many wide choices": lambda: (
        with_x({"items": {"enum": [f"v{n}" for n in range(2_000)]}}),
        {"x": [f"w{n}" for n in range(3_000)]},
    ),
    "wide forms that do not fit": lambda: (
        with_x({"items": {"anyOf": [{"const": f"c{n}"} for n in range(800)]}}),
        {"x": list(range(3_000))},
    ),
    "long names": lambda: (top({"required": ["x" * 20_000], "additionalProperties": False}), {"y" * MANY: 1}),
    "a long text": lambda: (with_x({"maxLength": 1, "enum": ["a" * 10_000], "pattern": "^b*$"}), {"x": "a" * 900_000}),
    "its own reference": lambda: (top({"$ref": "#"}), {}),
    "references in a ring": lambda: (
        top({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        {},
    ),
    "a chain of references": lambda: (
        top(
            {
                "$ref": "#/$defs/d0",
                "$defs": CHAIN,
            }
        ),
        {},
    ),
    "a deep value": lambda: (with_x({"anyOf": [{"type": "null"}, {"$ref": "#"}]}), {"x": pit(60)}),
    "many schemas": lambda: (top({"allOf": [{"not": {"not": {}}}] * 3_000}), {}),
    "many patterns": lambda: (top({"patternProperties": {f"^(a|b)*x{n}$": True for n in range(2_000)}}), {"a" * 40: 1}),
    "patterns that repeat": lambda: (
        top({"patternProperties": {f"^((a|b){{900}}x{n})*$": True for n in range(2_000)}}),
        {"a" * 40: 1},
    ),
    "patterns without case": lambda: (
        top({"patternProperties": {f"(?i)[\\x80-\\uffff]x{n}$": True for n in range(2_000)}}),
        {"a" * 40: 1},
    ),
    "a chain before each item": lambda: (
        with_x({"items": {"$ref": "#/$defs/d0"}}, **{"$defs": {**short_chain(60), "d60": {"type": "string"}}}),
        {"x": list(range(3_000))},
    ),
    "errors below a chain": lambda: (
        with_x(
            {"items": {"anyOf": [{"$ref": "#/$defs/d0"}]}},
            **{"$defs": {**short_chain(60), "d60": {"allOf": [{"type": "string"}] * 30}}},
        ),
        {"x": list(range(3_000))},
    ),
    "patterns of keys that are evaluated": lambda: (
        top({"patternProperties": {"^(a+)+$": True, "(x+x+)+y": True}, "unevaluatedProperties": False}),
        {"x" * 30 + "!" * n: 1 for n in range(200)},
    ),
    "many patterns that backtrack": lambda: (
        top({"patternProperties": {f"(x+x+)+y{n}": True for n in range(60)}}),
        {"x" * 22 + str(n): 1 for n in range(200)},
    ),
    "patterns that are just quick enough": lambda: (
        with_x({"items": {"allOf": [{"pattern": f"^(a|a)*{char}$"} for char in "bcdefgh"]}}),
        {"x": ["a" * 14] * 2_000},
    ),
    "evaluated within evaluated": lambda: (
        top({**evaluated(6), "unevaluatedProperties": False}),
        {f"k{n}": n for n in range(500)},
    ),
    "items looked for and evaluated": lambda: (
        with_x({"allOf": [{"contains": {"type": "string"}}] * 50, "unevaluatedItems": False}),
        {"x": list(range(500))},
    ),
    "towers of dependent schemas": lambda: (
        top({"$ref": "#/$defs/d0", "unevaluatedProperties": False, "$defs": dependents(4)}),
        dict.fromkeys("abcdefgh", 1),
    ),
    "a dynamic recursion": lambda: (
        top(
            {
                "$dynamicAnchor": "n",
                "properties": {"c": {"type": "array", "items": {"$dynamicRef": "#n"}}},
                "unevaluatedProperties": False,
            }
        ),
        {"c": [{"c": [{"c": [{"c": []}] * 20}] * 20}] * 20},
    ),
    "three ways at each level": lambda: (
        top({"properties": {"x": {"anyOf": [{"$ref": "#"}] * 3}}, "required": ["z"]}),
        {"x": pit(40)},
    ),
    "numbers far apart": lambda: (with_x({"items": {"multipleOf": 1e-300}}), {"x": [1.7e308] * 3_000}),
    "numbers of one hash": lambda: (
        with_x({"uniqueItems": True}),
        {"x": [float(n * (2**61 - 1)) for n in range(9_000)]},
    ),
    "choices that are objects": lambda: (
        with_x({"items": {"enum": [{"a": n} for n in range(1_000)]}}),
        {"x": [{"a": -n} for n in range(3_000)]},
    ),
    "all that fit too often": lambda: (
        with_x({"items": {"oneOf": [{"minimum": n} for n in range(100)]}}),
        {"x": list(range(500))},
    ),
    "many names at each item": lambda: (
        with_x({"items": {"properties": {f"k{n}": True for n in range(900)}}}),
        {"x": [{}] * 3_000},
    ),
    "many definitions": lambda: (
        top({"$defs": {f"d{n}": {"properties": {"a": {"type": "string"}}} for n in range(1_500)}, "minProperties": 1}),
        {"a": 1},
    ),
    "many ways in a pattern": lambda: (
        top({"patternProperties": {"|".join(f"a{n}x{m}" for n in range(300)): True for m in range(4)}}),
        {"a": 1},
    ),
}


def main() -> None:
    """Print the name of each case, and the seconds of CPU of taking its schema, of the first call and of the second."""
    for name, case in CASES.items():
        schema, args = case()
        given = freeze_object(args, [LARGE])
        times = [time.process_time()]
        schema_problem(schema)
        times.append(time.process_time())
        check = validator_for(ToolSpec("probe", "Look.", schema))
        for _ in range(2):
            check(given)
            times.append(time.process_time())
        taken = [f"{after - before:.4f}" for before, after in pairwise(times)]
        sys.stdout.write(f"{name}\t{' '.join(taken)}\n")


if __name__ == "__main__":
    main()

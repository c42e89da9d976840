"""Schemas and values by chance: each keyword of draft 2020-12, and references that lead down or back to the top."""

from __future__ import annotations

from hypothesis import strategies as st

from agentrail.models import Json, JsonObject

NAMES = st.sampled_from(["a", "b", "c"])
_SCALARS: st.SearchStrategy[Json] = st.sampled_from(
    [0, 1, 2, -1, 1.0, 2.5, 0.1, 1e300, "", "a", "ab", "abc", True, False, None]
)
VALUES: st.SearchStrategy[Json] = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
_COUNTS = st.integers(0, 2)
_REFS = st.sampled_from(["#/$defs/down", "#anchored", "#/$defs/plain"])
_TYPES: st.SearchStrategy[Json] = st.sampled_from(
    ["object", "array", "string", ["integer", "null"], "number", "boolean"]
)
_LEAVES: dict[str, st.SearchStrategy[Json]] = {
    "type": _TYPES,
    "minimum": st.sampled_from([0, 1.5]),
    "exclusiveMinimum": st.sampled_from([0, 1.0]),
    "maximum": st.sampled_from([1, 2.5]),
    "exclusiveMaximum": st.just(2),
    "multipleOf": st.sampled_from([2, 0.1, 1.5, 1e-300]),
    "minLength": _COUNTS,
    "maxLength": _COUNTS,
    "pattern": st.sampled_from(["^a", "b$", "(a|b)+c", "^(a+)+$"]),
    "minItems": _COUNTS,
    "maxItems": _COUNTS,
    "uniqueItems": st.booleans(),
    "minProperties": _COUNTS,
    "maxProperties": _COUNTS,
    "required": st.lists(NAMES, max_size=2, unique=True),
    "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
    "enum": st.lists(VALUES, max_size=3),
    "const": VALUES,
    "minContains": _COUNTS,
    "maxContains": _COUNTS,
    "$ref": _REFS,
    "$dynamicRef": _REFS,
    "format": st.just("date"),
}


def _holding(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=2)
    keywords: dict[str, st.SearchStrategy[Json]] = {
        **_LEAVES,
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
        **dict.fromkeys(("additionalProperties", "propertyNames", "items", "contains", "not"), inner),
        **dict.fromkeys(("if", "then", "else", "unevaluatedItems", "unevaluatedProperties"), inner),
        **dict.fromkeys(("properties", "dependentSchemas"), named),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b|c", "^(a+)+$"]), inner, max_size=2),
    }

    def with_these(chosen: list[str]) -> st.SearchStrategy[Json]:
        drawn: st.SearchStrategy[dict[str, Json]] = st.fixed_dictionaries({name: keywords[name] for name in chosen})
        return drawn.map(lambda found: found)

    return st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True).flatmap(with_these)


_SIMPLE: st.SearchStrategy[Json] = st.sampled_from(
    [True, False, {}, {"type": "string"}, {"type": "integer"}, {"const": 1}, {"$ref": "#/$defs/down"}, {"minLength": 1}]
)
_DOWN: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"type": "string", "minLength": 1},
        {"properties": {"a": {"$ref": "#/$defs/down"}}, "type": "object"},
        {"unevaluatedProperties": {"$ref": "#/$defs/down"}, "items": {"$ref": "#/$defs/down"}},
        {"additionalProperties": {"$ref": "#"}},
    ]
)


def _whole(said: Json, down: Json) -> JsonObject:
    defs: dict[str, Json] = {"down": down, "plain": True, "y": {"$anchor": "anchored", "type": ["array", "integer"]}}
    return {**(said if isinstance(said, dict) else {"allOf": [said]}), "$defs": defs}


SCHEMAS: st.SearchStrategy[JsonObject] = st.builds(_whole, st.recursive(_SIMPLE, _holding, max_leaves=10), _DOWN)

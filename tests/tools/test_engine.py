"""The library jsonschema, with its keywords metered, says what it says without, and what the official tests say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentrail.models import Json, JsonObject
from agentrail.tools import ToolSpec, validator_for
from agentrail.tools.json_schema.dialect import FORMS, FlawError, schema_flaw
from agentrail.tools.json_schema.metered import make_ready
from agentrail.tools.json_schema.validation import schema_problem
from agentrail.values.step_budget import Meter, TooManyStepsError
from tests.each_case import each_case
from tests.kit import freeze, freeze_object
from tests.tools.reference import reference_fits, reference_takes
from tests.tools.schemas import SCHEMAS, VALUES

PLENTY = 10_000_000


def fits(schema: Json, found: Json) -> bool:
    return not make_ready(json.loads(json.dumps(schema)), Meter(PLENTY)).faults(found, Meter(PLENTY))


@pytest.mark.long
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=6))
def test_the_verdicts_are_those_of_jsonschema(schema: JsonObject, values: list[Json]) -> None:
    for found in values:
        try:
            ours = fits(schema, found)
        except (FlawError, TooManyStepsError):  # it is applied inside itself without end, and jsonschema never returns
            assume(False)
        else:
            assert ours == reference_fits(schema, found), found


KEYWORDS = [*FORMS, "other"]
ANY_JSON: st.SearchStrategy[Json] = st.recursive(
    VALUES,
    lambda inner: st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.long
@given(SCHEMAS | ANY_JSON)
def test_what_is_a_schema_is_what_the_official_schema_of_schemas_says(schema: Json) -> None:
    assert (schema_flaw(json.loads(json.dumps(schema)), Meter(PLENTY)) is None) == reference_takes(schema)


Row = tuple[str, JsonObject, list[tuple[Json, bool]]]
ROWS: list[Row] = [
    (
        "one number is written in two ways",
        {"enum": [1, [2.0]]},
        [(1.0, True), ([2], True), (True, False), ([True], False)],
    ),
    ("big numbers", {"multipleOf": 1e-8}, [(1e300, True), (12391239123, True), (0.5, True), (1e-9, False)]),
    (
        "no item twice",
        {"uniqueItems": True},
        [([1, True], True), ([[1], [True], [1.0]], False), ([{"a": 1}, {"a": 1.0}], False)],
    ),
    ("none of none", {"enum": []}, [(1, False)]),
    ("nothing is said", {"uniqueItems": False}, [([1, 1], True)]),
    ("a false item", {"prefixItems": [True, False]}, [([1], True), ([1, 2], False)]),
    ("at least none", {"contains": {"const": 1}, "minContains": 0}, [([], True), ([2], True)]),
    ("at most one", {"contains": {"const": 1}, "maxContains": 1}, [([1], True), ([1, 1], False)]),
    (
        "its own name",
        {"$id": "http://a.example/b", "$ref": "b#/$defs/x", "$defs": {"x": {"const": 1}}},
        [(1, True), (2, False)],
    ),
    (
        "a name below the top",
        {"$ref": "x", "$defs": {"x": {"$id": "x", "$ref": "#/$defs/y", "$defs": {"y": {"const": 1}}}}},
        [(1, True), (2, False)],
    ),
    ("a pointer with signs", {"$ref": "#/$defs/a~1b~0%25", "$defs": {"a/b~%": {"const": 1}}}, [(1, True), (2, False)]),
    ("into a list", {"$ref": "#/allOf/1", "allOf": [True, {"const": 1}]}, [(1, True), (2, False)]),
    (
        "outside of all keywords",
        {"$ref": "#/mine/x", "mine": {"x": {"$ref": "#/mine/y"}, "y": {"const": 1}}},
        [(1, True), (2, False)],
    ),
    (
        "a dynamic anchor",
        {"$dynamicRef": "#x", "$defs": {"y": {"$dynamicAnchor": "x", "const": 1}}},
        [(1, True), (2, False)],
    ),
    (
        "no word of another draft",
        {"dependencies": {"a": ["b"]}, "additionalItems": False},
        [({"a": 1}, True), ([1], True)],
    ),
    ("formats are not looked at", {"format": "ipv4"}, [("a", True)]),
]


@each_case([row[1:] for row in ROWS])
def test_odd_schemas(schema: JsonObject, said: list[tuple[Json, bool]]) -> None:
    assert [(found, fits(schema, found)) for found, _ in said] == said
    if "uniqueItems" not in schema:  # jsonschema overlooks `[1]` twice if `[True]` stands between
        assert [(found, reference_fits(schema, found)) for found, _ in said] == said


FLAWS: list[tuple[Mapping[str, Json], str]] = [
    (
        {"$ref": "https://example.com/a.json"},
        "`$ref` leads to `https://example.com/a.json`, which is not in the schema",
    ),
    ({"$ref": "file:///etc/passwd"}, "`$ref` leads to `file:///etc/passwd`, which is not in the schema"),
    (
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        "`$ref` leads to `https://json-schema.org/draft/2020-12",
    ),
    ({"$ref": "#/$defs/a"}, "`$ref` leads to `#/$defs/a`, which is not in the schema"),
    ({"$ref": "#/type"}, "`$ref` leads to `#/type`, which is no schema"),
    ({"$ref": "#/mine", "mine": {"type": 5}}, "`$ref` leads to `#/mine`, which is no schema"),
    ({"$ref": "http://["}, "`$ref` leads to `http://[`, which is not in the schema"),
    ({"$id": "http://a", "properties": {"x": {"$id": "http://["}}}, "its `$id`, `http://[`, is no URI"),
    ({"$id": "http://[", "if": {"minProperties": 1}}, "its `$id`, `http://[`, is no URI"),
    ({"$dynamicRef": "#a"}, "`$dynamicRef` leads to `#a`, which is not in the schema"),
    (
        {"$dynamicRef": "#a", "$defs": {"x": {"$id": "x", "$dynamicAnchor": "a"}}},
        "`$dynamicRef` stands in a schema with an `$id` below the top; use `$ref`",
    ),
    ({"properties": {"x": {"pattern": "("}}}, "the pattern `(` is no regular expression: missing )"),
    ({"patternProperties": {"(": True}}, "the pattern `(` is no regular expression: missing )"),
    ({"properties": {"x": {"$schema": "http://json-schema.org/draft-07/schema#"}}}, "`$schema` stands below the top"),
]


@each_case(FLAWS)
def test_what_cannot_be_used_is_refused_and_nothing_is_fetched(schema: Mapping[str, Json], flaw: str) -> None:
    whole: JsonObject = {"type": "object", **schema}
    assert (schema_problem(whole) or "").startswith(flaw)
    said = validator_for(ToolSpec("probe", "Look.", whole))(freeze_object({"x": "a"}))
    assert (said or "").startswith(f"they cannot be checked ({flaw}")
    with pytest.raises(FlawError):
        make_ready(json.loads(json.dumps(whole)), Meter(PLENTY))


SUITE = Path(__file__).with_name("draft_2020_12.jsonl")
"""The required tests of github.com/json-schema-org/JSON-Schema-Test-Suite at 2026-08-22, without `format` and remote
references: each line has a group of them."""
OTHERWISE = {"a float with zero fractional part is an integer", "no validation: invalid number, but it still validates"}
"""Tests whose verdict is another one here: 1.0 is no integer, and `$schema` has no effect."""
NOT_HERE = ("`$dynamicRef` stands in a schema with", "`$ref` leads to", r"the pattern `^\p{Letter}+$` is no")
"""Reasons why schemas of the tests cannot be used here."""


@pytest.mark.long
def test_the_official_tests_agree() -> None:
    others: set[str] = set()
    flaws: list[str] = []
    count = 0
    for line in SUITE.read_text().splitlines():
        group = json.loads(line)
        try:
            schema = make_ready(group["schema"], Meter(PLENTY))
        except FlawError as why:
            flaws.append(str(why))
            continue
        for test in group["tests"]:
            count += 1
            if bool(schema.faults(test["data"], Meter(PLENTY))) is test["valid"]:
                others.add(test["description"])
    assert others == OTHERWISE
    assert (count, len(flaws)) == (1_068, 23)
    assert all(flaw.startswith(NOT_HERE) for flaw in flaws)


@pytest.mark.long
@given(st.recursive(VALUES, lambda inner: st.dictionaries(st.sampled_from(["type", "properties", "$ref"]), inner)))
def test_a_schema_that_was_not_looked_at_when_it_came_stops_nothing(schema: Json) -> None:
    spec = ToolSpec("probe", "Look.", freeze_object({"type": "object", "anyOf": freeze(schema), "properties": {}}))
    said = validator_for(spec)(freeze_object({"x": "a"}))
    assert said is None or isinstance(said, str)

import warnings
from collections.abc import Mapping, Sequence

import pytest

from agentrail.models import Json, JsonObject
from agentrail.tools import ToolSpec, validator_for
from tests.each_case import each_case
from tests.kit import EMPTY, freeze_object
from tests.tools.kinds import Color, Point, Query, Span, Tree, tool_of


def problem_of(schema: JsonObject, args: Mapping[str, object]) -> str | None:
    return validator_for(ToolSpec("probe", "Look.", schema))(freeze_object(args))


def with_x(schema: Json, **more: Json) -> JsonObject:
    return {"type": "object", "properties": {"x": schema}, "additionalProperties": False, **more}


def wanting(keyword: str, said: Json) -> JsonObject:
    return with_x({keyword: said})


ROWS: list[tuple[JsonObject, dict[str, object], str]] = [
    (wanting("type", "string"), {"x": 3}, "`x`: found 3, wanted text"),
    (wanting("type", "integer"), {"x": "three"}, '`x`: found "three", wanted an integer'),
    (wanting("type", "integer"), {"x": 3.0}, "`x`: found 3.0, wanted an integer"),
    (wanting("type", "integer"), {"x": True}, "`x`: found true, wanted an integer"),
    (wanting("type", "number"), {"x": None}, "`x`: found null, wanted a number"),
    (wanting("type", "boolean"), {"x": "no"}, '`x`: found "no", wanted true or false'),
    (wanting("type", "array"), {"x": "a"}, '`x`: found "a", wanted a list'),
    (wanting("type", "object"), {"x": [1, 2]}, "`x`: found a list of 2, wanted an object"),
    (
        wanting("type", ["string", "integer", "null"]),
        {"x": {}},
        "`x`: found an object, wanted text, an integer or null",
    ),
    (wanting("type", "string"), {"x": {"a": 1, "b": 2}}, "`x`: found an object with `a`, `b`, wanted text"),
    (wanting("enum", ["a", 1, None]), {"x": "b"}, '`x`: found "b", wanted "a", 1 or null'),
    (with_x({"type": "string", "enum": ["a", "b"]}), {"x": 3}, '`x`: found 3, wanted "a" or "b"'),
    (wanting("const", "a"), {"x": 1}, '`x`: found 1, wanted "a"'),
    (wanting("minimum", 1), {"x": 0}, "`x`: found 0, wanted at least 1"),
    (wanting("exclusiveMinimum", 1), {"x": 1}, "`x`: found 1, wanted more than 1"),
    (wanting("maximum", 1), {"x": 1.5}, "`x`: found 1.5, wanted at most 1"),
    (wanting("exclusiveMaximum", 1), {"x": 1}, "`x`: found 1, wanted less than 1"),
    (wanting("multipleOf", 5), {"x": 7}, "`x`: found 7, wanted a multiple of 5"),
    (wanting("minLength", 2), {"x": "a"}, "`x`: found 1 character, wanted at least 2"),
    (wanting("maxLength", 1), {"x": "äöü"}, "`x`: found 3 characters, wanted at most 1"),
    (wanting("pattern", "^a"), {"x": "ba"}, '`x`: found "ba", wanted text that matches `^a`'),
    (wanting("minItems", 1), {"x": []}, "`x`: found 0 items, wanted at least 1"),
    (wanting("maxItems", 1), {"x": [1, 2]}, "`x`: found 2 items, wanted at most 1"),
    (wanting("uniqueItems", True), {"x": [1, 1]}, "`x`: found a list of 2, wanted no item twice"),
    (wanting("minProperties", 1), {"x": {}}, "`x`: found 0 keys, wanted at least 1"),
    (wanting("maxProperties", 1), {"x": {"a": 1, "b": 1}}, "`x`: found 2 keys, wanted at most 1"),
    (
        wanting("contains", {"type": "string"}),
        {"x": [1]},
        "`x`: found a list of 1, wanted what `contains` in the schema",
    ),
    (wanting("not", {"type": "string"}), {"x": "a"}, '`x`: found "a", wanted what `not` in the schema says'),
    (
        wanting("oneOf", [{"type": "integer"}, {"minimum": 2}]),
        {"x": 3},
        "`x`: found 3, wanted only one of an integer or a value",
    ),
    (with_x(False), {"x": 1}, "`x`: found 1, wanted nothing"),
    (wanting("allOf", [False]), {"x": 1}, "`x`: found 1, wanted nothing"),
    (wanting("prefixItems", [True, False]), {"x": [1, 2]}, "`x[1]`: found 2, wanted nothing"),
    (wanting("anyOf", [False, {"minimum": 2}]), {"x": 1}, "`x`: found 1, wanted at least 2"),
    ({"type": "object", "propertyNames": False}, {"x": 1}, 'the arguments: found "x", wanted nothing'),
    (wanting("type", "string"), {}, ""),
    (with_x({"type": "string"}, required=["x"]), {}, "`x` is missing, wanted text"),
    (with_x(True, required=["x", "y"]), {}, "`x` is missing, wanted a value; `y` is missing, wanted a value"),
    (with_x({}), {"y": 1, "z": 2}, "`y` is unknown, known: `x`; `z` is unknown, known: `x`"),
    (with_x({}, patternProperties={"^y": {}}), {"y": 1, "z": 2}, "`z` is unknown, known: `x`"),
    ({"type": "object", "properties": {}, "additionalProperties": False}, {"x": 1}, "`x` is unknown, known: none"),
    ({"type": "object", "minProperties": 1}, {}, "the arguments: found 0 keys, wanted at least 1"),
    (
        with_x({"type": "array", "items": {"type": "object", "properties": {"a b": {"type": "string"}}}}),
        {"x": [{}, {"a b": 1}]},
        '`x[1]["a b"]`: found 1, wanted text',
    ),
]


@each_case(ROWS)
def test_a_refusal_says_where_what_was_found_and_what_is_wanted(
    schema: JsonObject, args: dict[str, object], problem: str
) -> None:
    assert (problem_of(schema, args) or "").startswith(problem)
    assert bool(problem_of(schema, args)) == bool(problem)


ANNOTATED: list[tuple[object, object, str]] = [
    (Color | None, "green", '`x`: found "green", wanted "red", "blue" or null'),
    (tuple[int, str], [1], "`x`: found 1 item, wanted at least 2"),
    (tuple[int, str], [1, "a", 2], "`x`: found a list of 3, wanted fewer items"),
    (Point | None, 3, "`x`: found 3, wanted `Point` or null"),
    (Point | None, {"x": "a"}, '`x.x`: found "a", wanted an integer'),
    (list[int] | str, [1, "2"], '`x[1]`: found "2", wanted an integer'),
    (Tree, {"name": "a", "parent": {"name": 1}}, "`x.parent.name`: found 1, wanted text"),
    (
        Query,
        {"options": {"color": 1}},
        '`x.options.color`: found 1, wanted "red" or "blue"; `x.text` is missing, wanted',
    ),
]


@each_case(ANNOTATED)
def test_a_refusal_looks_into_the_branch_that_was_meant(annotation: object, given: object, problem: str) -> None:
    said = validator_for(tool_of(annotation).spec)(freeze_object({"x": given}))
    assert said is not None
    assert said.startswith(problem)


BRANCHES: list[tuple[list[Json], Json, str]] = [
    ([{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Span"}], {"low": "a"}, '`x.low`: found "a", wanted an integer'),
    ([{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Span"}], {}, "`x`: found an object, wanted `Point` or `Span`"),
    (
        [{"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "string"}}],
        [None],
        "`x`: found a list of 1, wanted a list or a list",
    ),
]


@each_case(BRANCHES)
def test_a_refusal_by_the_schema_of_a_server_does_so_too(members: list[Json], given: Json, problem: str) -> None:
    parameters = tool_of(tuple[Point, Span]).spec.parameters
    said = problem_of({**parameters, "properties": {"x": {"anyOf": members}}}, {"x": given})
    assert said is not None
    assert said.startswith(problem)


def test_five_faults_are_told_in_order() -> None:
    schema: JsonObject = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}
    assert problem_of(schema, {"b": [0, "a", *range(9), "c"], "c": 1, "a": 2, "e": 3, "f": 4, "g": 5}) == (
        "`a`: found 2, wanted a list; "
        '`b[1]`: found "a", wanted an integer; '
        '`b[11]`: found "c", wanted an integer; '
        "`c`: found 1, wanted a list; "
        "`e`: found 3, wanted a list; "
        "and 2 more"
    )


def test_a_refusal_is_short_whatever_was_sent() -> None:
    long = "x" * 100_000
    schema = with_x({"enum": [long, "b"]}, required=[long])
    said = problem_of(schema, {"x": long + "y", **{f"{long}{n}": n for n in range(500)}})
    assert said is not None
    assert len(said) < 600
    assert said.endswith(" more")


def test_one_number_is_written_in_two_ways() -> None:
    assert problem_of(wanting("enum", [1]), {"x": 1.0}) is None
    assert problem_of(wanting("enum", [1]), {"x": True}) is not None
    assert problem_of(wanting("const", [0, {"a": [1]}]), {"x": [0, {"a": [1]}]}) is None


def test_a_reference_back_to_the_top_keeps_the_dialect() -> None:
    schema: JsonObject = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "x": {"type": "array"}, "n": {"type": "integer"}},
    }
    assert problem_of(schema, {"next": {"next": {"x": [1]}}}) is None
    assert problem_of(schema, {"next": {"next": {"n": 1.0}}}) == "`next.next.n`: found 1.0, wanted an integer"


CANNOT: Sequence[Json] = [{"$ref": "https://example.com/a.json"}, {"$ref": "#/$defs/A"}, {"pattern": "("}]


@pytest.mark.parametrize("schema", [*CANNOT, {"$ref": "#/properties/x"}], ids=str)
def test_arguments_that_cannot_be_checked_are_refused(schema: Json) -> None:
    with warnings.catch_warnings(action="error"):
        said = problem_of(with_x(schema), {"x": "a"})
    assert said is not None
    assert said.startswith("they cannot be checked (")


def test_arguments_may_be_as_deep_as_json_may_be() -> None:
    def nested(depth: int) -> dict[str, object]:
        return {"name": "a", "children": [nested(depth - 1)] if depth else []}

    check = validator_for(tool_of(Tree | None).spec)
    assert check(freeze_object({"x": nested(30)})) is None


def test_no_schema_at_all_takes_any_object() -> None:
    assert problem_of(EMPTY, {"x": [1, {"y": None}]}) is None


def test_one_schema_has_one_validator() -> None:
    one, other = ToolSpec("a", "A.", with_x({"type": "integer"})), ToolSpec("b", "B.", with_x({"type": "integer"}))
    assert validator_for(one) is validator_for(other)
    assert validator_for(ToolSpec("a", "A.", with_x({"const": 1}))) is not validator_for(
        ToolSpec("a", "A.", with_x({"const": True}))
    )

"""The quick check, the readers and jsonschema are of one mind."""

from typing import Annotated, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.models import Json, JsonObject
from agentrail.tools import Length, Pattern, Range, validator_for
from agentrail.tools.json_schema.validation import plain_check
from tests.each_case import each_case
from tests.tools.kinds import UNLUCKY, Color, Level, Point, Query, Span, Tree, UnfitError, reader_of, tool_of
from tests.tools.reference import reference_fits

WORDS = [
    "x",
    "y",
    "low",
    "high",
    "name",
    "children",
    "text",
    "limit",
    "options",
    "color",
    "tags",
    "red",
    "blue",
    "a",
    "",
]

numbers = st.one_of(
    st.integers(-2, 3),
    st.integers(),
    st.sampled_from([10**400, -(10**400), 2**64, 1e308, 5e-324, -0.0, 0.0, 1.0]),
    st.floats(allow_nan=False, allow_infinity=False),
)
plain: st.SearchStrategy[Json] = st.one_of(
    st.none(), st.booleans(), numbers, st.sampled_from(WORDS), st.text(st.characters(exclude_categories=["Cs"]))
)
anything: st.SearchStrategy[Json] = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=8,
)
names = st.one_of(st.sampled_from(WORDS), st.text(st.characters(exclude_categories=["Cs"]), max_size=3))
types = st.sampled_from(["string", "integer", "number", "boolean", "null"])
sizes = st.integers(0, 3)
limits: dict[str, st.SearchStrategy[Json]] = {
    "minimum": st.integers(-2, 3),
    "maximum": st.integers(-2, 3),
    "minLength": sizes,
    "maxLength": sizes,
    "minItems": sizes,
    "maxItems": sizes,
    "description": st.text(max_size=3),
}


@st.composite
def plain_schemas(draw: st.DrawFn) -> JsonObject:
    schema: dict[str, Json] = {"type": draw(st.one_of(types, st.lists(types, min_size=1, max_size=3, unique=True)))}
    if draw(st.booleans()):
        schema["enum"] = draw(st.lists(anything, max_size=4))
    return {**schema, **draw(st.fixed_dictionaries({}, optional=limits))}


@st.composite
def containers(draw: st.DrawFn, inner: st.SearchStrategy[JsonObject]) -> JsonObject:
    kinds = draw(st.sampled_from(["object", "array", ["array", "null"], ["string", "object"], ["object", "array"]]))
    schema: dict[str, Json] = {"type": kinds, **draw(st.fixed_dictionaries({}, optional=limits))}
    if draw(st.booleans()):
        schema["items"] = draw(inner | st.sampled_from([True, {}]))
    if draw(st.booleans()):
        known = draw(st.dictionaries(names, inner, max_size=4))
        schema["properties"] = known
        schema["required"] = draw(st.lists(st.sampled_from([*known, "x"]) | names, max_size=2, unique=True))
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(inner | st.booleans())
    return schema


def near(draw: st.DrawFn, schema: Json) -> Json:
    """Draw a value that *schema* nearly wants."""
    if not isinstance(schema, dict) or draw(st.integers(0, 5)) == 0:
        return draw(anything)
    choices, known = schema.get("enum"), schema.get("properties")
    if isinstance(choices, list) and choices and draw(st.booleans()):
        chosen: Json = draw(st.sampled_from(choices))
        return chosen
    if isinstance(known, dict) and draw(st.booleans()):
        drawn: dict[str, Json] = {name: near(draw, child) for name, child in known.items() if draw(st.booleans())}
        return drawn
    if "items" in schema and draw(st.booleans()):
        return tuple(near(draw, schema["items"]) for _ in range(draw(sizes)))
    return draw(anything)


nested = st.recursive(plain_schemas(), containers, max_leaves=6)


@st.composite
def plain_calls(draw: st.DrawFn) -> tuple[JsonObject, Json]:
    """Draw a plain schema and a value that it may want."""
    schema = draw(containers(nested) | nested)
    return schema, near(draw, schema)


@pytest.mark.long
@given(plain_calls())
def test_the_quick_check_agrees_with_jsonschema(call: tuple[JsonObject, Json]) -> None:
    schema, value = call
    fits = plain_check(schema)
    assert fits is not None
    assert fits(value) == reference_fits(schema, value)


OTHERS: list[Json] = [
    False,
    {"enum": [1]},
    {"properties": {}, "additionalProperties": False},
    {"type": []},
    {"type": "any"},
    {"type": ["string", "string"]},
    {"type": "object", "minProperties": 1},
    {"type": "object", "$ref": "#/$defs/A"},
    {"type": "object", "required": ["x", "x"]},
    {"type": "object", "required": "x"},
    {"type": "object", "properties": []},
    {"type": "object", "properties": {"x": {"type": "strings"}}},
    {"type": "object", "properties": {"x": False}},
    {"type": "object", "additionalProperties": {"$ref": "#"}},
    {"type": "object", "additionalProperties": 1},
    {"type": "array", "enum": [[1]]},
    {"type": "array", "items": False},
    {"type": "array", "items": [{"type": "string"}]},
    {"type": "array", "uniqueItems": True},
    {"type": "string", "enum": "a"},
    {"type": "string", "minLength": -1},
    {"type": "string", "maxLength": True},
    {"type": "number", "minimum": "1"},
    {"type": "number", "minimum": 0.5},
    {"type": "number", "exclusiveMinimum": 1},
    {"type": "string", "format": "date"},
    {"type": "string", "const": "a"},
    {"type": "string", "pattern": "a"},
    {"type": "string", "description": 1},
    {"type": "string", "examples": "a"},
]


@each_case(OTHERS)
def test_the_quick_check_leaves_alone_what_it_does_not_know(schema: Json) -> None:
    assert plain_check(schema) is None


def some(**fields: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """Draw objects with some of these *fields*."""
    drawn: st.SearchStrategy[dict[str, Json]] = st.fixed_dictionaries({}, optional=fields)
    return drawn.map(lambda found: found)


words: st.SearchStrategy[Json] = st.sampled_from(WORDS)
spans = some(low=st.integers(11, 13), high=st.one_of(st.none(), numbers))
points = some(x=numbers, y=st.integers(0, 3), tags=st.just(("a",)))
leaves = some(name=st.just("a"), children=st.sampled_from([(), (3,), ({"name": "b"},)]))
trees = some(name=st.just("a"), children=leaves.map(lambda leaf: (leaf,)), parent=leaves)
options = some(depth=numbers, color=words)
queries = some(text=st.just("a"), limit=st.integers(0, 10), options=options, near=st.sampled_from(["near", "by"]))

ANNOTATIONS: list[tuple[object, st.SearchStrategy[Json]]] = [
    (str, plain),
    (int, plain),
    (float, plain),
    (bool, plain),
    (None, plain),
    (Literal["a", 1] | None, plain),
    (Color, words),
    (Level | None, numbers),
    (list[int], anything),
    (tuple[int | str, ...], anything),
    (tuple[int, str], st.tuples(numbers, plain)),
    (dict[str, float | None], anything),
    (float | int, numbers),
    (Literal["a"] | list[Color], words.map(lambda word: (word,))),
    (Annotated[int, Range(ge=0)] | Annotated[float, Range(ge=0, lt=2)], numbers),
    (list[Annotated[float, Range(gt=0, le=2)]] | None, numbers.map(lambda number: (number,))),
    (Optional[Annotated[str, Length(min=1, max=3), Pattern("^[a-z]")]], plain),  # noqa: UP045 - pyright knows no `|` of it
    (Annotated[list[int], Length(min=1, max=2)], anything),
    (Annotated[dict[str, int], Length(max=1)], anything),
    (Span, spans),
    (Point, points),
    (Tree, trees),
    (Query, queries),
    (Point | int | None, st.one_of(points, spans)),
    (dict[str, Point] | None, points.map(lambda point: {"a": point})),
    (list[Query], queries.map(lambda query: (query,))),
]


@pytest.mark.long
@pytest.mark.parametrize(("annotation", "near"), ANNOTATIONS, ids=str)
def test_a_reader_takes_what_the_schema_takes(annotation: object, near: st.SearchStrategy[Json]) -> None:
    check, read = validator_for(tool_of(annotation).spec), reader_of(annotation)

    @given(st.one_of(near, anything))
    def agrees(found: Json) -> None:
        try:
            read(found)
            said = None
        except UnfitError as why:
            said = str(why)
        fits = check({"x": found}) is None
        refused = said is not None and (UNLUCKY in said or "out of range" in said)  # by the class, or by `float`
        assert refused or fits == (said is None)

    agrees()

from typing import Annotated, Literal, NewType, Optional, cast

import attrs
import pytest
from msgspec import defstruct

from agentrail.models import Json, JsonObject
from agentrail.tools import Length, Pattern, Range, ToolContext, tool
from tests.each_case import each_case
from tests.kit import freeze_object, thaw
from tests.tools.kinds import Color, Level, Options, Point, Query, Size, Span, Tree, tool_of

UserId = NewType("UserId", str)

OPTIONS = {
    "type": "object",
    "properties": {"depth": {"type": "integer"}, "color": {"type": "string", "enum": ["red", "blue"]}},
    "additionalProperties": False,
    "description": "How to do it.",
}
SPAN = {
    "type": "object",
    "properties": {
        "low": {"type": "integer", "description": "The least."},
        "high": {"type": ["number", "null"], "default": None},
    },
    "required": ["low"],
    "additionalProperties": False,
    "description": "From one number to another.",
}
POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "y": {"type": "integer", "default": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
    "additionalProperties": False,
}
TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
        "parent": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}], "default": None},
    },
    "required": ["name"],
    "additionalProperties": False,
}
QUERY = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "limit": {"type": "integer", "description": "At most so many.", "minimum": 1, "maximum": 9},
        "options": {"$ref": "#/$defs/Options"},
        "near": {"type": "string", "maxLength": 3},
    },
    "required": ["text"],
    "additionalProperties": False,
}

ROWS: list[tuple[object, dict[str, object]]] = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (None, {"type": "null"}),
    (UserId, {"type": "string"}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["b", 1, "a"] | None, {"type": ["string", "integer", "null"], "enum": ["b", 1, "a", None]}),
    (Literal["b", "a"] | Literal["a", "c"], {"type": "string", "enum": ["b", "a", "c"]}),  # noqa: PYI030 - of two names
    (Color, {"type": "string", "enum": ["red", "blue"]}),
    (Size, {"type": "string", "enum": ["s", "l"]}),
    (Level, {"type": "integer", "enum": [1, 2]}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (list[list[str]], {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2},
    ),
    (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
    (Json, {}),
    (JsonObject, {"type": "object"}),
    (dict[str, Json], {"type": "object", "additionalProperties": {}}),
    (list[Json] | None, {"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}),
    (Json | None, {}),
    (Annotated[Json, "Whatever."], {"description": "Whatever."}),
    (Optional[str], {"type": ["string", "null"]}),  # noqa: UP045 - the old way of writing it is read too
    (float | int | None, {"type": ["number", "integer", "null"]}),
    (Color | None, {"type": ["string", "null"], "enum": ["red", "blue", None]}),
    (Literal["auto"] | int, {"anyOf": [{"type": "string", "enum": ["auto"]}, {"type": "integer"}]}),
    (list[str] | str, {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
    (Annotated[int, "So many."], {"type": "integer", "description": "So many."}),
    (Annotated[int, Range(ge=1), Range(lt=9)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}),
    (Annotated[float, Range(gt=0.5, le=1)], {"type": "number", "exclusiveMinimum": 0.5, "maximum": 1}),
    (Annotated[str, Length(min=1, max=3)], {"type": "string", "minLength": 1, "maxLength": 3}),
    (Annotated[list[str], Length(min=1)], {"type": "array", "items": {"type": "string"}, "minItems": 1}),
    (Annotated[str, Pattern("^a")], {"type": "string", "pattern": "^a"}),
    (
        Annotated[dict[str, int], Length(max=3)],
        {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3},
    ),
    (
        list[Annotated[int, Range(ge=0)]] | None,
        {"anyOf": [{"type": "array", "items": {"type": "integer", "minimum": 0}}, {"type": "null"}]},
    ),
]
CLASSES: list[tuple[object, dict[str, object], dict[str, object]]] = [
    (Options, {"$ref": "#/$defs/Options"}, {"Options": OPTIONS}),
    (Span, {"$ref": "#/$defs/Span"}, {"Span": SPAN}),
    (Point, {"$ref": "#/$defs/Point"}, {"Point": POINT}),
    (Tree, {"$ref": "#/$defs/Tree"}, {"Tree": TREE}),
    (Query, {"$ref": "#/$defs/Query"}, {"Query": QUERY, "Options": OPTIONS}),
    (
        list[Point | None],
        {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]}},
        {"Point": POINT},
    ),
    (
        Annotated[Point, "Where."],
        {"$ref": "#/$defs/Point", "description": "Where."},
        {"Point": POINT},
    ),
]


def with_x(schema: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": False}


@each_case(ROWS)
def test_an_annotation_has_a_schema(annotation: object, schema: dict[str, object]) -> None:
    assert thaw(tool_of(annotation).spec.parameters) == with_x(schema)


@pytest.mark.parametrize(("annotation", "schema", "definitions"), CLASSES, ids=lambda row: str(row)[:40])
def test_a_class_stands_once_under_defs(
    annotation: object, schema: dict[str, object], definitions: dict[str, object]
) -> None:
    assert thaw(tool_of(annotation).spec.parameters) == {**with_x(schema), "$defs": definitions}


def test_the_schema_is_frozen() -> None:
    parameters = tool_of(list[int]).spec.parameters
    assert parameters == freeze_object(thaw(parameters))
    assert isinstance(hash(parameters), int)


def test_two_classes_of_one_name_are_two_definitions() -> None:
    another: object = attrs.make_class("Point", {"z": attrs.field(type=str)})
    definitions = tool_of(tuple.__class_getitem__((Point, another))).spec.parameters["$defs"]
    assert thaw(definitions) == {
        "Point": POINT,
        "Point2": {
            "type": "object",
            "properties": {"z": {"type": "string"}},
            "required": ["z"],
            "additionalProperties": False,
        },
    }


def test_a_function_says_everything_in_its_signature_and_docstring() -> None:
    @tool
    async def find(  # noqa: ASYNC124, PLR0913 - a tool is async, and this one has one of each
        text: str,
        ctx: ToolContext,
        *,
        limit: Annotated[int, Range(ge=1)] = 10,
        color: Color = Color.RED,
        where: Point = Point(1, tags=["a"]),  # noqa: B008 - a default that JSON can hold
        tags: tuple[str, ...] = ("x",),
        within: float = float("inf"),
        colors: dict[str, Color] = {"a": Color.RED},  # noqa: B006 - as it should not be done
        among: list[str] | None = None,
    ) -> str:
        """Find what was said,
        wherever it was said.

        This is for programmers.

        Args:
            text (str): What to look for,
                as it was written.
            ctx: Not for the model.
            limit: At most so many.
            among: One of: these.

        Returns:
            text: not an argument.
        """
        return f"{text}{ctx}{limit}{color}{where}{tags}{within}{colors}{among}"

    assert find.spec.name == "find"
    assert find.spec.description == "Find what was said, wherever it was said."
    properties: Json = find.spec.parameters["properties"]
    assert thaw(properties) == {
        "text": {"type": "string", "description": "What to look for, as it was written."},
        "limit": {"type": "integer", "minimum": 1, "description": "At most so many.", "default": 10},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "where": {"$ref": "#/$defs/Point", "default": {"x": 1, "y": 0, "tags": ["a"]}},
        "tags": {"type": "array", "items": {"type": "string"}, "default": ["x"]},
        "within": {"type": "number"},
        "colors": {
            "type": "object",
            "additionalProperties": {"type": "string", "enum": ["red", "blue"]},
            "default": {"a": "red"},
        },
        "among": {
            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
            "description": "One of: these.",
            "default": None,
        },
    }
    assert find.spec.parameters["required"] == ("text",)


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    @tool
    async def now() -> str:  # noqa: ASYNC124 - a tool is async
        """Tell the time."""
        return "now"

    assert thaw(now.spec.parameters) == {"type": "object", "properties": {}, "additionalProperties": False}


def definitions_of(*annotations: object) -> dict[str, dict[str, object]]:
    """Return the definitions in the schema of a tuple of *annotations*."""
    parameters = tool_of(tuple.__class_getitem__(annotations)).spec.parameters
    return cast("dict[str, dict[str, object]]", thaw(parameters["$defs"]))


def test_a_class_that_msgspec_makes_itself_has_its_name() -> None:
    own = defstruct("Point", [("z", str)])
    definition = {"title": "Point", "type": "object", "properties": {"z": {"type": "string"}}, "required": ["z"]}
    assert definitions_of(Point, own) == definitions_of(own, Point) == {"Point": definition, "Point2": POINT}


def test_names_that_are_no_ascii_are_several_definitions() -> None:
    order = attrs.make_class("订单", {"a": attrs.field(type=int)})
    client = attrs.make_class("客户", {"b": attrs.field(type=int, default=0)})
    definitions = definitions_of(order, client)
    assert [*definitions] == ["__", "__2"]
    assert definitions["__"] == {
        "title": "订单",
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert "required" not in definitions["__2"]


def test_a_default_is_that_of_its_own_tool() -> None:
    for default in (1, 1.0, True, 0, False):

        async def look(x: Json = default) -> None:
            """Look."""

        shown = cast("JsonObject", tool(look).spec.parameters["properties"])["x"]
        assert repr(shown) == repr(freeze_object({"default": default}))

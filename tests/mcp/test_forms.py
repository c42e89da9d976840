"""Forms of servers: how each field is asked for, what a typed answer means, and which forms nobody is asked with."""

import pytest

from agentrail.errors import ToolError
from agentrail.models import Json
from tests.each_case import each_case
from tests.kit import freeze_object
from tests.mcp.rig import NO_EXTRA

asked_back = pytest.importorskip("agentrail.adapters.mcp.asked_back", reason=NO_EXTRA)
form_fields = pytest.importorskip("agentrail.adapters.mcp.form_fields", reason=NO_EXTRA)


def field(schema: dict[str, object], *, required: bool = True) -> object:
    (only,) = form_fields.fields_of({"properties": {"f": schema}, "required": ["f"] if required else []})
    return only


@each_case(
    [
        ({"type": "string", "maxLength": 3}, "tea", "tea"),
        ({"type": "integer", "minimum": 0}, " 7 ", 7),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "no", False),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]}, "Second", "b"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "First"}]}, "First", "a"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "a, b", ["a", "b"]),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "First"}]}}, "First", ["a"]),
    ]
)
def test_an_answer_is_a_value(schema: dict[str, object], answer: str, value: object) -> None:
    assert getattr(field(schema), "value_of")(answer) == value  # noqa: B009 - the package may be missing


@each_case(
    [
        ({"type": "string", "maxLength": 3}, "teas", "4 characters is more than 3"),
        ({"type": "integer"}, "1.5", "no whole number"),
        ({"type": "integer"}, "9" * 30, "no whole number"),
        ({"type": "number"}, "nan", "no number"),
        ({"type": "boolean"}, "maybe", "none of the choices"),
        ({"type": "string", "enum": ["a"]}, "b", "none of the choices"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1}, "", "0 choices is less than 1"),
    ]
)
def test_an_answer_that_does_not_fit_says_why(schema: dict[str, object], answer: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        getattr(field(schema), "value_of")(answer)  # noqa: B009 - see above


def test_a_field_that_may_be_left_out_takes_its_default() -> None:
    assert getattr(field({"type": "string", "default": "tea"}, required=False), "value_of")("-") == "tea"  # noqa: B009
    assert getattr(field({"type": "string"}, required=False), "value_of")("-") is None  # noqa: B009


@each_case(
    [
        {"properties": 7},
        {"properties": {"f": {"type": "object"}}},
        {"properties": {"f": "text"}},
        {"properties": {"f": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {str(number): {"type": "string"} for number in range(21)}},
        {"properties": {"f": {"type": "string", "enum": [str(number) for number in range(101)]}}},
    ]
)
def test_a_form_that_nobody_can_fill_in_is_an_error(schema: dict[str, object]) -> None:
    with pytest.raises(ToolError, match="a form that cannot be shown"):
        form_fields.fields_of(schema)


FORM: Json = {"mode": "form", "message": "?", "requestedSchema": {"properties": {"f": {"type": "string"}}}}


@each_case(
    [
        {"requests": 7},
        {"requests": {"one": {"mode": "form"}}},
        {"requests": {"one": FORM}, "agreed": True, "values": {"f": "x"}},
        {"requests": {"one": FORM}, "how": "otherwise"},
    ]
)
def test_a_stored_question_that_somebody_has_changed_is_an_error(state: dict[str, Json]) -> None:
    with pytest.raises(ToolError, match="cannot be read"):
        asked_back.AskedBack.stored(freeze_object(state)).answered("x")

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Literal, Optional, cast

import attrs
import pytest
from msgspec import Meta

from agentrail.models import Json, JsonObject
from agentrail.tools import Length, Pattern, Range, Todo, ToolContext, err, tool
from tests.each_case import each_case
from tests.kit import freeze
from tests.tools.kinds import UNLUCKY, Color, Level, Point, Query, Size, Span, Tree, UnfitError, read

FITTING: list[tuple[object, object, object]] = [
    (str, "a", "a"),
    (int, 3, 3),
    (float, 1.5, 1.5),
    (float, 3, 3.0),
    (bool, True, True),
    (None, None, None),
    (Literal["a", 1], 1, 1),
    (Color, "red", Color.RED),
    (Size, "s", Size.SMALL),
    (Level, 2, Level.HIGH),
    (Color | None, None, None),
    (list[int], [1, 2], [1, 2]),
    (list[Color], ["red"], [Color.RED]),
    (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[int, Color], [1, "red"], (1, Color.RED)),
    (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
    (int | str, "3", "3"),
    (float | int, 3, 3),
    (float | int, 3.0, 3.0),
    (float | str, 3, 3.0),
    (Annotated[int, Range(ge=1, lt=3)], 1, 1),
    (Optional[Annotated[int, Range(ge=1)]], None, None),  # noqa: UP045 - pyright knows no `|` of it
    (Annotated[str, Length(max=2)], "ab", "ab"),
    (Literal["a"] | list[Color], ["blue"], [Color.BLUE]),
    (Literal["a", "b"] | None, None, None),
    (Point | int | None, {"x": 1}, Point(1)),
    (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
    (tuple[Span, ...], [{"low": 1}], (Span(1),)),
    (Annotated[str, Pattern("b")], "abc", "abc"),
    (Span, {"low": 1}, Span(1)),
    (Span, {"low": 1, "high": 2}, Span(1, 2.0)),
    (Point, {"x": 1, "tags": ["a"]}, Point(1, 0, ["a"])),
    (Literal[1] | int | float, 2, 2),  # noqa: PYI051 - a `Literal` that says nothing harms nothing
    (Annotated[int, Range(ge=0)] | Annotated[float, Range(gt=-0.5, lt=2)], 0, 0),
    (Annotated[int, Range(lt=3)] | Annotated[float, Range(le=2.5)], 2, 2),
    (Tree, {"name": "a", "children": [{"name": "b"}]}, Tree("a", [Tree("b")])),
    (Query, {"text": "a", "options": {"color": "red"}}, {"text": "a", "options": {"color": Color.RED}}),
    (Todo, {"text": "mend it"}, Todo("mend it")),
]


@each_case(FITTING)
def test_json_becomes_what_the_function_is_annotated_with(annotation: object, given: object, meant: object) -> None:
    found = read(annotation, given)
    assert (found, type(found)) == (meant, type(meant))


class Lenient(Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, value: object) -> "Lenient":  # noqa: ARG003 - the name that the base has
        return cls.RED


UNFITTING: list[tuple[object, object]] = [
    (str, 3),
    (str, None),
    (int, "3"),
    (int, 3.0),
    (int, True),
    (float, "3"),
    (float, True),
    (bool, "no"),
    (bool, 0),
    (None, False),
    (Literal["a", 1], True),
    (Literal["a", 1], 1.0),
    (Literal["a"], ["a"]),
    (Color, "RED"),
    (Level, True),
    (Level, 1.0),
    (Lenient, "green"),
    (list[Lenient | None], ["green"]),
    (list[str], "abc"),
    (list[int], {}),
    (list[int], [1, "2"]),
    (tuple[int, Color], [1]),
    (tuple[int, ...], "12"),
    (dict[str, int], []),
    (dict[str, int], {"a": "b"}),
    (int | bool, 1.0),
    (Annotated[int, Range(ge=1)], 0),
    (Annotated[float, Range(gt=1, le=2)], 1.0),
    (Annotated[float, Range(gt=1, le=2)], 2.1),
    (Annotated[list[int], Length(min=1)], []),
    (Annotated[dict[str, int], Length(max=0)], {"a": 1}),
    (Annotated[str, Pattern("^b")], "ab"),
    (Point, ""),
    (Point, []),
    (Point, {}),
    (Point, {"x": 1, "z": 2}),
    (Span, {"low": 1, "_high": 2}),
    (Span, {"low": 1, "secret": 2}),
    (Query, {}),
    (Query, []),
    (Query, {"text": "a", "options": {"color": "green"}}),
    (Query, {"text": "a", "limit": 10}),
]


@each_case(UNFITTING)
def test_nothing_is_bent_until_it_fits(annotation: object, given: object) -> None:
    with pytest.raises(UnfitError):
        read(annotation, given)


def test_a_pattern_that_backtracks_holds_up_no_call() -> None:
    with pytest.raises(UnfitError, match=r"^they cannot be checked"):
        read(Annotated[str, Pattern("^(a|a)*(a|a)*$")], "a" * 60 + "b")


def test_a_pattern_beside_a_description_of_msgspec_holds_up_no_call() -> None:
    with pytest.raises(UnfitError, match=r"^they cannot be checked"):
        read(Annotated[str, Meta(pattern="^(a|a)*$")], "a" * 24 + "b")


def test_a_tool_may_change_what_it_gets() -> None:
    given = freeze({"a": [1]})
    found = read(dict[str, list[int]], given)
    changed = cast("dict[str, list[int]]", found)
    changed["a"].append(2)
    changed["b"] = []
    assert given == freeze({"a": [1]})


def test_a_class_may_refuse_its_values() -> None:
    for annotation, given, place in ((Span, {"low": 13}, "x"), (dict[str, list[Span]], {"a": [{"low": 13}]}, "x.a[0]")):
        with pytest.raises(UnfitError) as caught:
            read(annotation, given)
        assert str(caught.value) == f"`{place}`: {UNLUCKY}"


@tool
async def ask(text: str, span: Span | None = None, *, limit: Annotated[int, Range(ge=1)] = 7) -> str:  # noqa: ASYNC124 - a tool is async
    """Ask."""
    return f"{text} {span} {limit}"


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        ({}, "`text` is missing, wanted text"),
        ({"text": 3}, "`text`: found 3, wanted text"),
        ({"text": "a", "town": 1}, "`town` is unknown, known: `limit`, `span`, `text`"),
        ({"text": "a", "limit": 0}, "`limit`: found 0, wanted at least 1"),
        ({"text": "a", "span": {"low": "b"}}, '`span.low`: found "b", wanted an integer'),
        ({"text": "a", "span": {"low": 13}}, f"`span`: {UNLUCKY}"),
    ],
)
async def test_arguments_that_do_not_fit_are_an_error_result(args: Mapping[str, int], answer: str) -> None:
    assert await ask.execute(args, ToolContext()) == err(f"these arguments do not fit `ask`: {answer}")


@attrs.frozen
class Holding:
    found: Json
    fields: JsonObject


def test_json_comes_new_and_may_be_changed() -> None:
    sent = freeze({"found": [1, {"a": None}], "fields": {"b": [True]}})
    found = read(Holding, sent)
    assert found == Holding([1, {"a": None}], {"b": [True]})
    assert isinstance(found, Holding)
    assert isinstance(found.found, list)
    found.found.append(2)
    assert sent == {"found": (1, {"a": None}), "fields": {"b": (True,)}}


def test_an_object_of_json_is_an_object() -> None:
    with pytest.raises(UnfitError, match=r"`x\.fields`: found a list of 0, wanted an object"):
        read(Holding, {"found": 1, "fields": []})

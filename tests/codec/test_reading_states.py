"""Plugin states and options are read strictly: nothing that cattrs would coerce or ignore is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import attrs
import pytest

from agentrail.codec.plugin_types import decode_state, readable
from agentrail.errors import BadData
from agentrail.events import Event, Heartbeat
from agentrail.models import JsonObject, Part, Usage
from tests.codec.plugin_states import Colour, First, Level, Nested, Odd, Ours, Plain, Point, Second, Span, Tree
from tests.each_case import each_case
from tests.kit import EMPTY

NESTED: Mapping[str, object] = {"inner": {}, "colour": "red"}

if TYPE_CHECKING:
    from types import MappingProxyType

    from agentrail.models import Json


@attrs.frozen
class Known:
    """Its hints are known to type checkers, and to the codec."""

    one: Json = None
    _more: Annotated[JsonObject, "what there is more"] = EMPTY


@dataclass(frozen=True)
class Likewise:
    one: Json = None


class Tupled(NamedTuple):
    one: Json


@attrs.frozen
class Unknown:
    one: MappingProxyType[str, int] | None = None


@pytest.mark.parametrize("state", [Known((1,)), Likewise((1,)), Tupled((1,))], ids=lambda state: type(state).__name__)
def test_names_of_ours_need_no_import_at_run_time(state: object) -> None:
    assert readable(type(state)) is None
    assert decode_state(type(state), {"one": [1]}) == state


def test_other_names_do() -> None:
    assert "import it at run time" in (readable(Unknown) or "")
    with pytest.raises(BadData, match="its `one` of `Unknown` has a type hint that cannot be resolved"):
        decode_state(Unknown, {"one": None})


REFUSED: list[tuple[object, object, str]] = [
    (int, "5", "it is a `str` where a whole number is wanted"),
    (int, 5.0, "it is a `float` where a whole number is wanted"),
    (int, True, "it is a `bool` where a whole number is wanted"),
    (int, "x", "it is a `str` where a whole number is wanted"),
    (int, None, "it is nothing where a whole number is wanted"),
    (float, "1.5", "it is a `str` where a number is wanted"),
    (float, True, "it is a `bool` where a number is wanted"),
    (bool, 1, "it is an `int` where a boolean is wanted"),
    (bool, None, "it is nothing where a boolean is wanted"),
    (str, 5, "it is an `int` where text is wanted"),
    (str, None, "it is nothing where text is wanted"),
    (None, 0, "it is an `int` where nothing is wanted"),
    (tuple[int, ...], "12", "it is a `str` where an array is wanted"),
    (tuple[int, ...], {"a": 1}, "it is a `FrozenObject` where `tuple[int, ...]` is wanted"),
    (tuple[int, ...], [1, "2"], "its `[1]` is a `str` where a whole number is wanted"),
    (tuple[int, str], [1], "it is a `tuple` where `tuple[int, str]` is wanted"),
    (tuple[int, str], [1, 2], "its `[1]` is an `int` where text is wanted"),
    (Sequence[int], "12", "it is a `str` where an array is wanted"),
    (frozenset[int], [1, 1], "it holds 2 things, and 1 would come back"),
    (AbstractSet[str], "ab", "it is a `str` where an array is wanted"),
    (Mapping[str, int], [], "it is a `tuple` where an object is wanted"),
    (Mapping[str, int], {"a": "1"}, "its `a` is a `str` where a whole number is wanted"),
    (JsonObject, [], "it is a `tuple` where an object is wanted"),
    (Colour, "green", "it is a `str` where a `Colour` is wanted"),
    (Level, "1", "it is a `str` where a `Level` is wanted"),
    (Level, True, "it is a `bool` where a whole number is wanted"),
    (Literal["a", 3], "b", "it is a `str` where `typing.Literal['a', 3]` is wanted"),
    (Point, "x", "it is a `str` where a `Point` is wanted"),
    (Point, {}, "it lacks `x`"),
    (Point, {"x": 1, "z": 2}, "it has the key `z`, which is not known"),
    (Point, {"x": 1, "tags": ["a", 2]}, "its `tags[1]` is an `int` where text is wanted"),
    (Point, [], "it is a `tuple` where a `Point` is wanted"),
    (
        Nested,
        {**NESTED, "inner": {"count": {}}},
        "its `inner.count` is a `FrozenObject` where a whole number is wanted",
    ),
    (Plain, [], "it is a `tuple` where an object is wanted"),
    (Span, {"start": {"x": "1"}}, "its `start.x` is a `str` where a whole number is wanted"),
    (Point | None, {"$": "Point"}, "it lacks `x`"),
    (Point | None, 5, "it is an `int` where `Point | NoneType` is wanted"),
    (First | Second, {"value": 1}, "its `$` names none of `First | Second`"),
    (First | Second, {"$": "First", "value": "1"}, "its `value` is a `str` where a whole number is wanted"),
    (int | float, True, "it is a `bool` where `int | float` is wanted"),
    (int | str, 1.5, "it is a `float` where `int | str` is wanted"),
    (Usage, {"cost_usd": "x"}, "its `cost_usd` is text where a number or nothing is wanted"),
    (Part, {"$": "Text", "text": 1}, "its `text` is a whole number where text is wanted"),
    (Nested, {**NESTED, "levels": [1, 5]}, "its `levels[1]` is an `int` where a `Level` is wanted"),
    (Nested, {**NESTED, "by_name": {"a": {"count": "x"}}}, "its `by_name['a'].count` is a `str` where a whole number"),
    (Nested, {"colour": "red"}, "it lacks `inner`"),
    (Tree, {"name": "a", "children": [{"name": "b", "children": 5}]}, "its `children[0].children` is an `int` where"),
    (Ours, {"payload": 1, "used": {"cost_usd": "x"}}, "its `used.cost_usd` is text where a number or nothing"),
    (Odd, {"cl": 1, "converter": [{"value": 1}, {}]}, "its `converter[1]` lacks `value`"),
]


@each_case(REFUSED)
def test_what_does_not_fit_is_refused_with_its_place(hint: object, data: object, problem: str) -> None:
    with pytest.raises(BadData) as refused:
        decode_state(hint, data)
    _, place, said = refused.value.args
    assert f"{place} {said}".startswith(problem)


@pytest.mark.parametrize(
    ("hint", "data", "read"),
    [
        (float, 5, 5),
        (float, 2**60 + 1, 2**60 + 1),
        (Point | None, {"x": 1}, Point(1)),
        (First | Second, {"$": "Second", "value": 1}, Second(1)),
        (Mapping[str, int] | First, {"value": 1}, {"value": 1}),
        (Mapping[str, int] | First, {"$": "First", "value": 1}, First(1)),
        (Event | None, {"$": "Heartbeat"}, Heartbeat()),
        (Usage, {"cost_usd": 5}, Usage(cost_usd=5.0)),
    ],
    ids=str,
)
def test_what_fits_is_read_as_it_is(hint: object, data: object, read: object) -> None:
    found = decode_state(hint, data)
    assert found == read
    assert isinstance(found, Mapping) or type(found) is type(read)

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, Flag
from types import MappingProxyType

import attrs
import pytest

from agentrail import State
from agentrail.codec.json_text import from_text, to_text
from agentrail.codec.plugin_states import MAX_CHECKED, Stored, data_of, storable
from agentrail.codec.plugin_types import decode_state, readable, revive
from agentrail.codec.values import decode, read, write
from agentrail.errors import BadData, BadValue
from agentrail.hooks.attachments import STATE_LIMIT
from agentrail.models import History, Text
from agentrail.values.json import MAX_DEPTH
from agentrail.values.messages import EMPTY_HISTORY
from agentrail.values.value import Value
from tests.codec.plain import encode
from tests.codec.plugin_states import (
    Alike,
    Bare,
    Box,
    Colour,
    First,
    Level,
    Listing,
    Loose,
    Nested,
    Plain,
    Point,
    Second,
    Span,
    Tree,
    Union,
    Unseen,
)
from tests.each_case import each_case
from tests.kit import Ruling, Setup, freeze
from tests.opcodes import counted_opcodes

NAME = f"{Plain.__module__}:Plain"


class Counted(Value):
    """A state that is made the way our own values are."""

    count: int = 0
    """How often."""


@attrs.define
class Open:
    count: int = 0


@dataclass
class OpenPoint:
    x: int = 0


@attrs.frozen
class Holder:
    item: object = None
    by_name: Mapping[str, object] = MappingProxyType({})


class Pair(Enum):
    ONE = (1, 2)


class Bits(Flag):
    A = 1
    B = 2


class Words(str):
    __slots__ = ()


STORABLE: list[object] = [
    None,
    True,
    0,
    -(2**63),
    2**64 - 1,
    1.5,
    "",
    "text",
    "é",
    (),
    (1, "a", None, (2.5,)),
    pytest.param(frozenset({"a", "b"}), id="texts"),
    pytest.param(frozenset({("a", 1), ("b", 2)}), id="pairs"),
    MappingProxyType({"a": 1}),
    freeze({"a": [1, {"b": None}]}),
    Colour.RED,
    Level.HIGH,
    Counted(3),
    Plain(1, 0.25),
    Nested(Plain(), Colour.NONE, (Level.LOW,), MappingProxyType({"x": Plain(), "y": None})),
    Point(1, 2.5, ("a",)),
    Span(Point(1)),
    Union(First(1), (Second(2), None), "x", freeze({"a": 1})),  # type: ignore[arg-type]
    Tree("a", (Tree("b", (Tree("c"),)),)),
]


@each_case(STORABLE)
def test_a_frozen_value_of_plain_values_can_be_stored(state: object) -> None:
    assert storable(state) is None


NOT_STORABLE: list[tuple[object, str]] = [
    ([], "it is a `list`, which can change; keep a tuple"),
    ({}, "it is a `dict`, which can change; keep a frozen mapping, such as `types.MappingProxyType`"),
    (set[int](), "it is a `set`, which can change; keep a frozenset"),
    (bytearray(), "it is a `bytearray`, which can change; keep text, such as base64"),
    (b"x", "it is a `bytes`, which JSON cannot hold; keep text, such as base64"),
    (Decimal(1), "it is a `Decimal`, which cannot be stored; keep frozen attrs classes of plain values"),
    (History(), "it is a `History`, which grows behind your back; keep a tuple of its messages"),
    (len, "it is a `builtin_function_or_method`, which cannot be stored; keep frozen attrs classes of plain values"),
    (Plain, "it is a `type`, which cannot be stored; keep frozen attrs classes of plain values"),
    (Open(), "it is an `Open`, which can change; make it `@attrs.frozen`"),
    (OpenPoint(), "it is an `OpenPoint`, which can change; make it `@dataclass(frozen=True)`"),
    (Words("x"), "it is a `Words`, which cannot be stored; keep frozen attrs classes of plain values"),
    (Pair.ONE, "it is a member of `Pair` whose value is not plain"),
    (Bits.A | Bits.B, "it is a member of the flag `Bits`; keep a frozenset of members of an `Enum`"),
    (2**64, "it is a whole number that does not fit 64 bits"),
    (float("nan"), "it is nan, which JSON cannot hold"),
    ("\ud800", "it is text with half a surrogate pair"),
    ((1, (2, [3])), "its `[1][1]` is a `list`, which can change; keep a tuple"),
    (Holder(Holder((1, set[int]()))), "its `item.item[1]` is a `set`, which can change; keep a frozenset"),
    (Holder(by_name=MappingProxyType({"a b": []})), "its `by_name['a b']` is a `list`, which can change; keep a tuple"),
    (Holder(by_name=MappingProxyType({1: 2})), "its `by_name[1]` has a key that is an `int`; keys must be text"),  # type: ignore[dict-item]
    (MappingProxyType({"$": 2}), "its `['$']` has the key `$`, which is reserved; use another one"),
    (MappingProxyType({"\ud800": 2}), "its `['\\ud800']` is text with half a surrogate pair"),
    (frozenset({Open}), "its `[]` is a `type`, which cannot be stored; keep frozen attrs classes of plain values"),
    (Point([]), "its `x` is a `list`, which can change; keep a tuple"),  # type: ignore[arg-type]
    (Span(Point(1), Point(Open())), "its `end.x` is an `Open`, which can change; make it `@attrs.frozen`"),  # type: ignore[arg-type]
]


@each_case(NOT_STORABLE)
def test_what_cannot_be_stored_is_named_with_the_reason(state: object, problem: str) -> None:
    assert storable(state) == problem
    with pytest.raises(BadValue) as refused:
        data_of(state)
    assert refused.value.args == (type(state).__name__, *problem.split(" ", 1)) or "`" in problem


def nested(levels: int) -> object:
    state: object = 1
    for _ in range(levels):
        state = (state,)
    return state


def test_a_state_has_no_more_levels_than_json_of_ours() -> None:
    assert storable(nested(MAX_DEPTH)) is None
    assert storable(nested(MAX_DEPTH + 1)) == f"its `{'[0]' * MAX_DEPTH}` has more than {MAX_DEPTH} levels"


@pytest.mark.parametrize("unit", ["a", "é", "\U0001f600", "\x00", '"'])
def test_a_state_is_as_big_as_it_is_when_it_is_written(unit: str) -> None:
    most = (STATE_LIMIT - 2) // len(to_text(unit)[1:-1].encode())
    assert storable(unit * most) is None
    assert (
        storable(unit * (most + 1))
        == f"it takes {len(to_text(unit * (most + 1)).encode()):,} bytes when it is written; at most 65,536 are kept"
    )


def test_a_limit_can_be_given() -> None:
    state = Plain(1)
    size = len(to_text(data_of(state)).encode())
    assert storable(state, size) is None
    assert storable(state, size - 1) == f"it takes {size} bytes when it is written; at most {size - 1} are kept"
    assert storable(tuple(range(100)), 291) is None, "what may be too big at its worst is measured"


def test_a_state_says_which_class_it_is_of() -> None:
    assert data_of(Point(1, None, ("a",))) == {"$": "Point", "x": 1, "y": None, "tags": ["a"]}
    assert data_of(frozenset({"b", "a", "c"})) == ["a", "b", "c"]
    assert data_of((Colour.RED, Level.LOW)) == ["red", 1]


def test_a_state_is_read_by_its_hints() -> None:
    assert decode_state(Point, {"x": 1}) == Point(1)
    with pytest.raises(BadData, match="cannot read a `Point`: its `x` is a `str` where a whole number is wanted"):
        decode_state(Point, {"$": "Point", "x": "1"})
    with pytest.raises(BadData, match="it is another class where a `Point` is wanted"):
        decode_state(Point, {"$": "Span", "x": 1})
    with pytest.raises(BadData, match=r"its `one.\$` names none of `First \| Second`"):
        decode_state(Union, {"$": "Union", "one": {"$": "Third", "value": 1}})


@attrs.frozen
class Even:
    number: int = attrs.field(default=0)

    @number.validator  # pyright: ignore[reportAttributeAccessIssue, reportUntypedFunctionDecorator, reportUnknownMemberType]
    def _check(self, _: object, number: int) -> None:
        if number % 2:
            raise ValueError(number)


def test_a_class_that_refuses_what_was_stored_is_named_and_its_words_stay_in_the_cause() -> None:
    with pytest.raises(BadData, match=r"it is refused by `Even` \(ValueError\)$") as refused:
        decode_state(Even, {"number": 3})
    assert isinstance(refused.value.__cause__, ValueError)


NO_NAME = "name 'Decimal' is not defined"
NOT_READABLE: list[tuple[object, str]] = [
    (
        Unseen,
        f"its `amount` of `Unseen` has a type hint that cannot be resolved ({NO_NAME}); import it at run time",
    ),
    (Bare, "its `items` is hinted `tuple`, which cannot be read back; give a more exact type, or `Json`"),
    (Listing, "its `items` is hinted `list`, which can change; say `tuple`"),
    (Loose, "its `anything` is hinted `object`, which cannot be read back; give a more exact type, or `Json`"),
    (Box[int], "its `item` is hinted `object`, which cannot be read back; give a more exact type, or `Json`"),
    (Alike, "its `either` is hinted `Colour | str`, of which two look alike in JSON"),
    (
        tuple[tuple[Decimal, ...], ...],
        "its `[][]` is hinted `Decimal`, which cannot be read back; give a more exact type, or `Json`",
    ),
    (Bits, "it is hinted `Bits`, whose members do not each have a plain value"),
    (Pair, "it is hinted `Pair`, whose members do not each have a plain value"),
    (tuple[int, ...] | frozenset[int], "it is hinted `tuple | frozenset`, of which two look alike in JSON"),
]


@each_case(NOT_READABLE)
def test_a_type_that_could_not_be_read_back_is_named_with_the_reason(hint: object, problem: str) -> None:
    assert readable(hint) == problem


def state_of(*states: object) -> State:
    return State("s1", Setup(), "demo", plugin_states=states)


def there_and_back(*states: object) -> tuple[object, ...]:
    text = to_text(encode(state_of(*states)))
    read = decode(State, from_text(text))
    assert to_text(encode(read)) == text
    return read.plugin_states


def test_plain_states_need_no_class() -> None:
    plain = (
        None,
        True,
        5,
        2.5,
        "x",
        (),
        (1, ("a", None)),
        frozenset({1, 2}),
        freeze({"a": [1]}),
        MappingProxyType({"b": 2}),
    )
    assert there_and_back(*plain) == plain


def test_a_state_of_a_class_that_is_not_known_stays_as_it_was_written() -> None:
    plain = Plain(3)
    (stored,) = there_and_back(plain)
    assert stored == Stored(NAME, freeze(data_of(plain)))
    assert data_of(stored) == freeze(data_of(plain))
    assert revive(Plain, stored) == plain


def test_a_container_of_classes_is_read_by_the_type_of_the_plugin() -> None:
    mixed = (Colour.RED, frozenset({1}), Plain(1))
    (stored,) = there_and_back(mixed)
    assert isinstance(stored, Stored)
    assert revive(tuple[Colour, frozenset[int], Plain], stored) == mixed


def test_a_plain_state_is_checked_against_the_type_of_the_plugin() -> None:
    assert revive(tuple[int, ...], (1, 2)) == (1, 2)
    with pytest.raises(BadData, match="it is an `int` where a `Plain` is wanted"):
        revive(Plain, 5)


def test_nothing_is_imported_by_a_name_that_was_read() -> None:
    data = {"hook": "init", "states": [[0, {"class": "os:system", "data": "echo"}]]}
    assert decode(Ruling, data).states == ((0, Stored("os:system", "echo")),)
    assert "antigravity" not in sys.modules
    decode(Ruling, {"hook": "init", "states": [[0, {"class": "antigravity:x", "data": 1}]]})
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    ("kept", "problem"),
    [
        (5, r"its `states\[0\]\[1\]` is no state of a plugin"),
        ({}, "is no state of a plugin"),
        ({"data": 1, "more": 2}, "is no state of a plugin"),
        ({"class": 5, "data": 1}, "is no state of a plugin"),
        ({"class": "frozenset", "data": [1, 1]}, "holds the same thing twice"),
    ],
)
def test_a_kept_state_that_is_none_is_refused(kept: object, problem: str) -> None:
    with pytest.raises(BadData, match=problem):
        decode(Ruling, {"hook": "init", "states": [[0, kept]]})


def test_a_state_with_all_the_levels_that_it_may_have_comes_back() -> None:
    ruling = Ruling("init", states=((0, nested(MAX_DEPTH)),))
    text = write(ruling)
    assert read(Ruling, text) == decode(Ruling, from_text(text)) == ruling
    with pytest.raises(BadData, match="it is nested too deep"):
        read(Ruling, text.replace(b"[1]", b"[[1]]"))


def test_a_state_is_written_alike_whether_it_was_checked_before_or_not() -> None:
    for count in (1, MAX_CHECKED, MAX_CHECKED * 2 + 1):
        states = [Holder((number, "x")) for number in range(count)]
        assert [storable(state) for state in states] == [None] * count
        again = [Holder((number, "x")) for number in range(count)]
        for _ in range(2):
            assert [data_of(state) for state in states] == [data_of(state) for state in again]


def test_the_json_of_a_checked_state_may_be_changed_by_who_gets_it() -> None:
    state = Holder((1, 2))
    assert storable(state) is None
    first = data_of(state)
    assert isinstance(first, dict)
    first["item"] = "changed"
    assert data_of(state) == data_of(Holder((1, 2)))


def test_a_checked_state_is_made_to_json_once() -> None:
    state = Holder(tuple(range(1000)))
    took: list[int] = []
    for _ in range(2):
        with counted_opcodes() as counted:
            data_of(state)
        took.append(counted[0])
        assert storable(state) is None
    assert took[1] * 50 < took[0]


def test_a_ruling_with_a_state_that_cannot_be_stored_is_not_written() -> None:
    with pytest.raises(BadValue, match=r"its `states\[0\]\[1\].item` is a `list`, which can change"):
        encode(Ruling("init", states=((0, Holder([])),)))


def test_a_history_that_has_grown_is_not_written_twice() -> None:
    assert encode(state_of().but(history=EMPTY_HISTORY)) == encode(state_of())


@pytest.mark.long
def test_asking_whether_a_state_can_be_stored_imports_no_cattrs() -> None:
    program = """
import sys, attrs
from agentrail.codec.plugin_states import data_of, storable
from agentrail.codec.json_text import from_text, to_text
@attrs.frozen
class A:
    x: int = 0
assert storable(A()) is None and from_text(to_text(data_of(A())))
assert not [name for name in sys.modules if name.partition(".")[0] in ("cattrs", "jsonschema", "trio")]
"""
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603 - our own program


FEW = 2_048
"""A limit that is reached soon: each opcode is counted."""


@pytest.mark.parametrize(
    "of",
    [
        lambda count: ("",) * count,
        lambda count: (Text(""),) * count,
        lambda count: ((1, 2.5, None),) * count,
        lambda count: frozenset(range(count)),
        lambda count: MappingProxyType({str(number): number for number in range(count)}),
        lambda count: ((("",) * count,), "after"),
    ],
    ids=["texts", "values", "tuples", "set", "mapping", "inside"],
)
def test_what_is_far_too_large_is_not_looked_at_to_its_end(of: Callable[[int], object]) -> None:
    assert storable((Text(""), Plain(1))) is None  # what there is to know of a class is found out once
    took: list[int] = []
    for count in (20_000, 30_000):
        state = of(count)
        with counted_opcodes() as counted:
            found = storable(state, FEW)
        assert found == "it takes more than 2,048 bytes when it is written, and no more are kept"
        took.append(counted[0])
    assert took[1] - took[0] < 100


@pytest.mark.parametrize(
    "of",
    [
        lambda text: text,
        lambda text: (text,),
        lambda text: frozenset({text}),
        lambda text: MappingProxyType({"a": text}),
        lambda text: MappingProxyType({text: 1}),
        Text,
    ],
    ids=["alone", "tuple", "set", "mapping", "key", "value"],
)
def test_a_text_that_is_far_too_large_is_not_written_to_be_measured(of: Callable[[str], object]) -> None:
    state = of("\u4e2d" * 1_000_000 + "\ud800")  # whoever writes it finds half a surrogate pair
    assert storable(state) == "it takes more than 65,536 bytes when it is written, and no more are kept"
    with pytest.raises(BadValue, match="half a surrogate pair"):
        data_of(state)

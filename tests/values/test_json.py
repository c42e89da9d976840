"""JSON is frozen within its limits, whatever it was put together from; what is equal is the same JSON."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, cast

import hypothesis
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from agentrail import ReplaceToolArgs
from agentrail.api.command_checks import kept_parts
from agentrail.core.vocabulary.tool_calls import Doubt
from agentrail.errors import NotJson, ResponseTooLong, UsageError
from agentrail.models import AssistantMessage, Data, FrozenObject, Json, JsonObject, Response, ToolCall
from agentrail.tools import Ok
from agentrail.values.json import MAX_DEPTH, MAX_ITEMS, canonical, canonical_once, is_same
from agentrail.values.untrusted_content import CALLS_WITH_MUCH, fit_response, fit_result
from tests.coded import coded
from tests.kit import ApproveSent, freeze, freeze_object

ALREADY = freeze_object({"x": list(range(MAX_ITEMS // 2))})


def test_what_was_frozen_before_counts_where_it_stands_now() -> None:
    assert freeze_object({"a": ALREADY})["a"] is ALREADY
    with pytest.raises(NotJson, match="more than 10000 items"):
        freeze_object({"a": ALREADY, "b": [ALREADY]})


def test_what_was_frozen_before_counts_as_data_and_as_details_of_a_result() -> None:
    assert fit_result(Ok((Data(ALREADY),), FrozenObject({"a": 1}))) == Ok((Data(ALREADY),), FrozenObject({"a": 1}))
    for much in (Ok((Data(ALREADY), Data(ALREADY))), Ok((Data(ALREADY),), ALREADY)):
        with pytest.raises(NotJson, match="more than 10000 items"):
            fit_result(much)


def test_what_was_frozen_before_counts_as_arguments_of_calls() -> None:
    calls = tuple(ToolCall("", "x", ALREADY) for _ in range(2 * CALLS_WITH_MUCH))
    with pytest.raises(ResponseTooLong, match="more than 10000 items"):
        fit_response(Response((), calls))
    assert fit_response(Response((), calls[1:])).calls[0].args is ALREADY


def test_what_a_caller_says_counts_if_it_was_frozen_before() -> None:
    wide = FrozenObject({str(number): number for number in range(MAX_ITEMS + 1)})
    with pytest.raises(UsageError, check=coded("bad-message"), match="more than 10000 items"):
        kept_parts([Data(wide)])


def test_flat_objects_that_were_frozen_before_share_one_room() -> None:
    half = freeze_object({str(number): number for number in range(MAX_ITEMS // 2)})
    room = [MAX_ITEMS]
    assert [freeze_object(half, room) is half for _ in range(2)] == [True, True]
    assert room == [0]
    with pytest.raises(NotJson, match=f"more than {MAX_ITEMS} items"):
        freeze_object(FrozenObject(a=1), room)


def test_the_items_of_an_object_count_before_they_are_frozen() -> None:
    room = [3]
    assert freeze_object({"a": {"b": 1}, "c": 2}, room) == {"a": {"b": 1}, "c": 2}
    assert room == [0]
    for fuller in ({"a": 1, "b": 2}, MappingProxyType({"a": 1, "b": 2})):
        with pytest.raises(NotJson, match=f"more than {MAX_ITEMS} items"):
            freeze_object(fuller, [1])


def test_of_an_object_without_end_no_more_is_read_than_there_is_room_for() -> None:
    read = list[int]()

    class Numbers(Mapping[str, int]):
        """An object with a member for each number."""

        def __iter__(self) -> Iterator[str]:
            for number in range(1000):
                read.append(number)
                yield str(number)

        def __len__(self) -> int:
            return 1000

        def __getitem__(self, key: str) -> int:
            return int(key)

    with pytest.raises(NotJson, match=f"more than {MAX_ITEMS} items"):
        freeze_object(Numbers(), [10])
    assert len(read) == 11


def test_an_object_that_holds_others_is_counted_part_by_part() -> None:
    inner = freeze_object({"a": [1, 2], "b": {"c": None}})
    room = [MAX_ITEMS]
    assert freeze_object(inner, room) is inner
    assert room == [MAX_ITEMS - 5]


def test_an_object_that_was_counted_is_refused_where_it_is_too_deep_or_too_large() -> None:
    inner = freeze_object({"a": {"b": {"c": [1, 2]}}})
    assert freeze_object(inner) is inner
    found: Json = inner
    for _ in range(MAX_DEPTH - 4):
        found = (found,)
    assert freeze(found) == found
    with pytest.raises(NotJson, match=f"more than {MAX_DEPTH} levels"):
        freeze((found,))
    with pytest.raises(NotJson, match=f"more than {MAX_ITEMS} items"):
        freeze_object(inner, [4])


def test_the_text_of_a_schema_is_written_once() -> None:
    schema = freeze_object({"type": "object", "properties": {"a": {"const": True}}})
    once = canonical_once(schema)
    assert once == canonical(schema) == '{"properties":{"a":{"const":true}},"type":"object"}'
    assert canonical_once(schema) is once
    assert canonical_once(freeze_object({"type": "object", "properties": {"a": {"const": 1}}})) != once


LIKE_ONE: Final = (1, 1.0, True)
LIKE_ZERO: Final = (0, 0.0, -0.0, False)

alike: Final = st.sampled_from((*LIKE_ONE, *LIKE_ZERO, None, "1", "", 2))
"""Values among which Python's `==` takes several for the same."""

nested: Final = st.recursive(
    alike, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
)

objects: Final = st.dictionaries(st.sampled_from("ab"), nested, max_size=2).map(freeze_object)


@pytest.mark.long
@hypothesis.given(objects, objects)
@settings(max_examples=200)
def test_what_is_equal_is_the_same_json(left: JsonObject, right: JsonObject) -> None:
    same = canonical(left) == canonical(right)
    assert (left == right, left != right, is_same(left, right)) == (same, not same, same)
    if same:
        assert hash(left) == hash(right)
    pairs = (
        (Data(left), Data(right)),
        (Data((left, 1)), Data((right, 1))),
        (ToolCall("c1", "pay", left), ToolCall("c1", "pay", right)),
        (Doubt("c1", "pay", left), Doubt("c1", "pay", right)),
        (ApproveSent("h1", args=left), ApproveSent("h1", args=right)),
        (ReplaceToolArgs(left), ReplaceToolArgs(right)),
        (AssistantMessage((), (ToolCall("c1", "pay", left),)), AssistantMessage((), (ToolCall("c1", "pay", right),))),
    )
    for holder, twin in pairs:
        assert ((holder == twin), (holder != twin)) == (same, not same)
    assert Doubt("c1", "pay", left).covers("pay", right) is same


@pytest.mark.parametrize("family", [LIKE_ONE, LIKE_ZERO])
def test_a_number_and_a_boolean_are_two_values_wherever_they_stand(family: tuple[Json, ...]) -> None:
    for left in family:
        for right in family:
            for around in (lambda value: value, lambda value: [value], lambda value: {"a": [{"b": value}]}):
                old, new = freeze(around(left)), freeze(around(right))
                assert is_same(old, new) == (canonical(old) == canonical(new))
                assert (Data(old) == Data(new)) == (canonical(old) == canonical(new))


def test_an_object_is_equal_to_a_dict_of_the_same_json() -> None:
    frozen = freeze_object({"a": 1, "b": [1.0], "c": {"d": True}})
    assert frozen == {"a": 1, "b": (1.0,), "c": {"d": True}}
    assert frozen == {"a": 1, "b": (1.0,), "c": {"d": True}}
    assert frozen != {"a": True, "b": (1.0,), "c": {"d": True}}
    assert frozen != {"a": 1, "b": (1,), "c": {"d": True}}
    assert frozen != {"a": 1, "b": (1.0,), "c": {"d": 1}}
    assert frozen != cast("object", 5)


def test_frozen_json_comes_back_from_another_process_frozen() -> None:
    whole = freeze_object({"a": {"b": [1, True, 1.0]}, "c": {}})
    for again in (pickle.loads(pickle.dumps(whole)), copy.deepcopy(whole)):  # noqa: S301 - what was just written
        assert again == whole
        with pytest.raises(TypeError, match="this JSON is frozen"):
            cast("dict[str, Json]", again["a"])["b"] = 1

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from typing import Annotated, Literal, NewType, cast

import attrs
import pytest
from typing_extensions import TypeAliasType

from agentrail import Options
from agentrail.codec.json_text import DOCUMENT_DEPTH, from_text
from agentrail.codec.plugin_types import decode_state, readable
from agentrail.codec.values import decode, read, write
from agentrail.core.vocabulary.commands import ResumeSent
from agentrail.errors import BadData, BadValue
from agentrail.events import EVENTS, Event, Heartbeat, SubAgentEvent, UnknownEvent
from agentrail.models import (
    AssistantMessage,
    Data,
    FrozenObject,
    History,
    Json,
    JsonObject,
    Message,
    Origin,
    Text,
    UserMessage,
)
from agentrail.plugins import BeforeCompaction, BeforeRequest, BeforeTool, Hook
from agentrail.values import json
from agentrail.values.json import MAX_DEPTH
from agentrail.values.messages import EMPTY_HISTORY
from agentrail.values.value import Value
from tests.codec.plain import encode
from tests.codec.plugin_states import First
from tests.codec.sampling import STORED, event_sample, sample
from tests.codec.shapes import Leaf, shape_of
from tests.each_case import each_case
from tests.kit import EMPTY, Arrival, Ruling, freeze_object
from tests.opcodes import counted_opcodes

HELLO = UserMessage((Text("hello"),))


def test_a_sequence_of_ours_is_read_as_what_it_is() -> None:
    hello = encode(HELLO)
    assert decode(History, [hello]) == History([HELLO])
    assert decode(tuple[Message, ...], [hello]) == (HELLO,)


def test_a_class_is_named_only_where_there_is_a_choice() -> None:
    assert encode(UserMessage((Text("hello"),), Origin.NOTICE)) == {
        "$": "UserMessage",
        "origin": "notice",
        "parts": [{"$": "Text", "text": "hello"}],
    }
    assert encode(Arrival(ResumeSent(), 5)) == {"input": {"$": "ResumeSent"}, "at": 5}
    assert decode(UserMessage, {"parts": []}) == UserMessage(())


def test_what_has_its_default_is_left_out() -> None:
    assert encode(AssistantMessage()) == {"$": "AssistantMessage"}
    assert encode(Ruling("check")) == {"hook": "check"}
    assert encode(Options(max_rounds=3)) == {"max_rounds": 3}


def test_a_read_history_may_have_been_a_tuple() -> None:
    class Kept(Value):
        """What somebody keeps."""

        history: History = EMPTY_HISTORY
        """A conversation."""

    given = Kept((HELLO,))  # type: ignore[arg-type]
    assert decode(Kept, encode(given)) == Kept(History([HELLO]))


@pytest.mark.parametrize("hook", [BeforeRequest(History([HELLO])), BeforeCompaction(History([HELLO]), "asked")])
def test_a_suspended_hook_shows_the_same_history_again(hook: Hook) -> None:
    assert decode(Hook, encode(hook)) == hook


class Shown:
    """A class of nobody's kind."""


Money = NewType("Money", int)
Named = TypeAliasType("Named", str)


@each_case(
    [
        (Money, 5, 5),
        (Annotated[int, "what it means"], 5, 5),
        (Named, "x", "x"),
        (Literal["a", 3], 3, 3),
        (int | str, "x", "x"),
        (float | None, 5, 5),
        (Json, [1, {"a": None}], (1, FrozenObject(a=None))),
        (JsonObject, {}, EMPTY),
        (Mapping[str, Json], {"a": [1]}, FrozenObject(a=(1,))),
        (tuple[Json, ...], [[1]], ((1,),)),
        (None, None, None),
        (typing.Sequence[int], [1], (1,)),
        (typing.AbstractSet[int], [1], frozenset({1})),
    ]
)
def test_hints_say_the_same_in_all_their_forms(hint: object, data: object, read: object) -> None:
    assert decode_state(hint, data) == read


@attrs.frozen
class Qualified:
    payload: json.Json = None


def test_an_alias_of_ours_is_known_under_any_name() -> None:
    assert decode_state(Qualified, {"payload": [1]}) == Qualified((1,))
    assert shape_of(json.Json) is Leaf.JSON
    assert decode_state(Qualified, {"payload": None}) == Qualified(None)


def test_a_type_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(BadData, match=r"cannot read a `Shown`: it is hinted `Shown`, which cannot be read back"):
        decode_state(Shown, {})
    same = type("First", (), {"__annotations__": {"other": "int"}})
    assert readable(First | attrs.frozen(same)) == "it is hinted `First | First`, of which two look alike in JSON"


def test_what_is_nested_too_deep_is_refused() -> None:
    event: object = {"$": "Heartbeat"}
    for _ in range(5_000):
        event = {"$": "SubAgentEvent", "call_id": "c", "child": "s", "event": event}
    with pytest.raises(BadData, match="it is nested too deep"):
        decode(Event, event)
    given: Event = Heartbeat()
    for _ in range(5_000):
        given = SubAgentEvent("c", "s", given)
    with pytest.raises(BadValue, match="it is nested too deep"):
        encode(given)


def test_what_readers_would_refuse_for_its_levels_is_not_written() -> None:
    event: Event = Heartbeat()
    for _ in range(DOCUMENT_DEPTH - 1):
        event = SubAgentEvent("c", "s", event)
    assert decode(Event, from_text(write(event))) == event
    with pytest.raises(BadValue, match="it is nested too deep"):
        write(SubAgentEvent("c", "s", event))
    brackets = Text('[{\\"' * DOCUMENT_DEPTH)
    assert decode(Text, from_text(write(brackets))) == brackets, "brackets in texts are no levels"


def test_json_of_more_levels_than_can_be_read_is_not_written() -> None:
    found = EMPTY
    for _ in range(MAX_DEPTH - 1):
        found = FrozenObject(a=found)
    assert read(Data, write(Data(found))) == Data(found)
    assert read(BeforeTool, write(BeforeTool("find", found, "c1"))) == BeforeTool("find", found, "c1")
    for deeper in (FrozenObject(a=found), (found,)):
        with pytest.raises(BadValue, match="it is nested too deep"):
            write(Data(deeper))
    for deeper in (FrozenObject(a=found), FrozenObject(a=(found,))):
        with pytest.raises(BadValue, match="it is nested too deep"):
            write(BeforeTool("find", deeper, "c1"))


@pytest.mark.parametrize("innermost", [(), (1,)], ids=["empty", "full"])
def test_lists_of_more_levels_than_can_be_read_are_not_written(innermost: json.Json) -> None:
    lists = innermost
    for _ in range(MAX_DEPTH - 1):
        lists = (lists,)
    assert read(Data, write(Data(lists))) == Data(lists)
    with pytest.raises(BadValue, match="it is nested too deep"):
        write(Data((lists,)))


def test_json_that_is_written_again_is_compared_once() -> None:
    schema = freeze_object({"type": "object", "properties": {name: {"type": ["string", "null"]} for name in "abcdef"}})
    took: list[int] = []
    texts: list[bytes] = []
    for _ in range(3):
        with counted_opcodes() as counted:
            texts.append(write(BeforeTool("find", schema, "c1")))
        took.append(counted[0])
    assert texts[0] == texts[1] == texts[2]
    assert took[1] == took[2] < took[0] / 2
    assert read(BeforeTool, texts[2]) == BeforeTool("find", schema, "c1")


@pytest.mark.parametrize(
    "odd",
    [
        FrozenObject({"a": cast("Json", {"b": [1]})}),
        FrozenObject({"a": freeze_object({"b": 1}), "c": cast("Json", {1: 2})}),
        FrozenObject({"a": freeze_object({"b": 1}), "c": math.nan}),
        FrozenObject({"a": (FrozenObject({"b": math.inf}),)}),
    ],
    ids=["list", "key", "nan", "inside"],
)
def test_json_that_does_not_come_back_is_refused_each_time(odd: JsonObject) -> None:
    for _ in range(3):
        with pytest.raises(BadValue):
            write(BeforeTool("find", odd, "c1"))


@pytest.mark.long
def test_the_text_of_a_value_is_that_of_its_data() -> None:
    values = [sample(cls) for cls in STORED] + [event_sample(cls) for cls in EVENTS]
    odd = Text('é 🙂 "quoted" \\ \x00 \n \u2028')
    for one in (*values, odd, UnknownEvent("Else", freeze_object({"a": [1.0, -0.0, 1e22, 2**64 - 1]}))):
        assert from_text(write(one)) == encode(one)


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (UnknownEvent("half \ud800", EMPTY), "its `kind` is text with half a surrogate pair"),
        (UnknownEvent("Else", cast("JsonObject", None)), "its `body` is nothing where a JSON object is wanted"),
    ],
)
def test_an_unknown_event_is_not_written_blindly(event: UnknownEvent, problem: str) -> None:
    with pytest.raises(BadValue, match=problem):
        write(event)

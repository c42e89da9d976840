from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, NewType, cast

import attrs
import pytest
from typing_extensions import TypeAliasType

from agentrail import codec
from agentrail.codec import DOCUMENT_DEPTH, decode, encode, encode_text, from_text, readable, to_text
from agentrail.codec.shapes import Leaf, shape_of
from agentrail.core.vocabulary.options import Options
from agentrail.errors import AgentrailError, BadData, BadValue, Busy
from agentrail.hooks.moments import BeforeCompaction, BeforeRequest, Hook
from agentrail.hooks.ruling import Ruling
from agentrail.values import json
from agentrail.values.content import Text
from agentrail.values.events import EVENTS
from agentrail.values.events.envelope import Event
from agentrail.values.events.plugins import Heartbeat, UnknownEvent
from agentrail.values.events.tools import SubAgentEvent
from agentrail.values.json import EMPTY, FrozenObject, Json, JsonObject, freeze, freeze_object
from agentrail.values.messages import EMPTY_HISTORY, AssistantMessage, History, Message, UserMessage
from agentrail.values.value import Value
from tests.codec.plugin_states import Colour, First, Plain, Second
from tests.codec.sampling import STORED, event_sample, sample

HELLO = UserMessage((Text("hello"),))


def test_values_are_written_by_what_they_are() -> None:
    text = {"$": "Text", "text": "x"}
    assert encode(Text("x")) == text
    assert encode((Text("x"), None, 1)) == [text, None, 1]
    assert encode([Text("x")]) == [text]
    assert encode({"a": Text("x"), "b": freeze([1])}) == {"a": text, "b": [1]}
    assert encode(frozenset({"b", "a"})) == ["a", "b"]
    assert encode(Colour.BLUE) == 7
    assert encode(Busy("compact")) == {"error": "Busy", "facts": ["compact"]}
    assert encode(History([HELLO])) == [encode(HELLO)]
    assert decode(History, encode(History([HELLO]))) == History([HELLO])
    assert decode(tuple[Message, ...], encode((HELLO,))) == (HELLO,)


def test_a_class_is_named_only_where_there_is_a_choice() -> None:
    assert encode(HELLO) == {"$": "UserMessage", "origin": "prompt", "parts": [{"$": "Text", "text": "hello"}]}
    assert decode(UserMessage, {"parts": []}) == UserMessage(())


def test_what_says_nothing_is_left_out_and_settings_never_are() -> None:
    assert encode(AssistantMessage()) == {"$": "AssistantMessage", "stop": "end"}
    assert encode(Ruling("check")) == {"$": "Ruling", "hook": "check", "verdict": "pass"}
    written = encode(Options())
    assert isinstance(written, Mapping)
    assert set(written) == {"$", *Options.__struct_fields__}


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


@attrs.frozen
class Edges:
    either: First | Second | JsonObject | None = None
    error: AgentrailError | None = None
    table: Mapping[str, Plain] | None = None
    pair: tuple[int, str] | None = None
    names: frozenset[str] = frozenset()
    colour: Colour | None = None
    whole: History = EMPTY_HISTORY


@pytest.mark.parametrize(
    "edges",
    [
        Edges(First(1)),
        Edges(freeze({"value": 1})),  # type: ignore[arg-type]
        Edges(error=Busy("stop")),
        Edges(table=MappingProxyType({"a": Plain(1)})),
        Edges(pair=(1, "a")),
        pytest.param(Edges(names=frozenset({"a", "b"}), colour=Colour.RED), id="names"),
    ],
    ids=str,
)
def test_every_kind_of_choice_comes_back(edges: Edges) -> None:
    assert decode(Edges, encode(edges)) == edges


def edges(**wrong: object) -> Edges:
    """Return edges that a type checker would not let pass."""
    return cast("Callable[..., Edges]", Edges)(**wrong)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (Edges(FrozenObject({"$": "First", "value": 1})), "its `either` has the key `$`, which would name a class"),
        (edges(either=Shown()), "its `either` is a `Shown` where a `First` or a `Second` or a JSON object is wanted"),
        (edges(error=ValueError()), "its `error` is a `ValueError` where an error of ours is wanted"),
        (edges(table={1: Plain()}), "its `table[1]` is an `int` where text is wanted"),
        (edges(table=MappingProxyType({"a": 1})), "its `table['a']` is an `int` where a `Plain` is wanted"),
        (edges(pair=(1,)), "its `pair` holds 1 things where 2 are wanted"),
        (edges(pair=(1, 2)), "its `pair[1]` is an `int` where text is wanted"),
        (edges(names=frozenset({1})), "its `names[]` is an `int` where text is wanted"),
        (edges(colour="red"), "its `colour` is a `str` where one of `Colour` is wanted"),
        (edges(whole=5), "its `whole` is an `int` where a tuple is wanted"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_every_kind_of_choice_is_strict(given: object, problem: str) -> None:
    with pytest.raises(BadValue) as refused:
        encode(given)
    assert f"{refused.value.args[1]} {refused.value.args[2]}" == problem


Money = NewType("Money", int)
Named = TypeAliasType("Named", str)


@pytest.mark.parametrize(
    ("hint", "data", "read"),
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
    ],
    ids=str,
)
def test_hints_say_the_same_in_all_their_forms(hint: object, data: object, read: object) -> None:
    assert decode(hint, data) == read


@attrs.frozen
class Qualified:
    payload: json.Json = None


def test_an_alias_of_ours_is_known_under_any_name() -> None:
    assert decode(Qualified, {"payload": [1]}) == Qualified((1,))
    assert shape_of(json.Json) is Leaf.JSON
    assert decode(Qualified, {"payload": None}) == Qualified(None)


def test_a_type_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(BadData, match=r"cannot read a `Shown`: it is hinted `Shown`, which cannot be read back"):
        decode(Shown, {})
    same = type("First", (), {"__annotations__": {"other": "int"}})
    assert readable(First | attrs.frozen(same)) == "it may be one of two classes called `First`"
    assert readable(First | AgentrailError) == "it may be a `First` or an error, which look alike in JSON"


def test_what_is_nested_too_deep_is_refused() -> None:
    event: object = {"$": "Heartbeat"}
    for _ in range(5_000):
        event = {"$": "SubAgentEvent", "call_id": "c", "child": "s", "event": event}
    with pytest.raises(BadData, match="it is nested too deep"):
        decode(Event, event)
    given: object = ()
    for _ in range(5_000):
        given = (given,)
    with pytest.raises(BadValue, match="it is nested too deep"):
        encode(given)


def test_what_readers_would_refuse_for_its_levels_is_not_written() -> None:
    event: Event = Heartbeat()
    for _ in range(DOCUMENT_DEPTH - 1):
        event = SubAgentEvent("c", "s", event)
    assert decode(Event, from_text(encode_text(event))) == event
    with pytest.raises(BadValue, match="it is nested too deep"):
        encode_text(SubAgentEvent("c", "s", event))
    brackets = Text('[{\\"' * DOCUMENT_DEPTH)
    assert decode(Text, from_text(encode_text(brackets))) == brackets, "brackets in texts are no levels"


def test_the_text_of_a_value_is_that_of_its_data() -> None:
    values = [sample(cls) for cls in STORED] + [event_sample(cls) for cls in EVENTS]
    odd = Text('é 🙂 "quoted" \\ \x00 \n \u2028')
    for one in (*values, odd, UnknownEvent("Else", freeze_object({"a": [1.0, -0.0, 1e22, 2**64 - 1]}))):
        assert encode_text(one) == to_text(encode(one))


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (UnknownEvent("half \ud800", EMPTY), "its `kind` is text with half a surrogate pair"),
        (UnknownEvent("Else", cast("JsonObject", None)), "its `body` is nothing where a JSON object is wanted"),
    ],
)
def test_an_unknown_event_is_not_written_blindly(event: UnknownEvent, problem: str) -> None:
    with pytest.raises(BadValue, match=problem):
        encode_text(event)


def test_the_package_says_what_it_has() -> None:
    with pytest.raises(AttributeError, match=r"`agentrail.codec` has no `encoder`; it has DOCUMENT_DEPTH, "):
        getattr(codec, "encoder")  # noqa: B009 - a checker would see it
    assert all(hasattr(codec, name) for name in codec.__all__)

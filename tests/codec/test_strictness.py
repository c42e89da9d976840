from collections.abc import Iterator, Mapping
from itertools import count, cycle
from types import MappingProxyType
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.codec import values
from agentrail.codec.json_text import from_text, to_text
from agentrail.codec.values import decode, read, write
from agentrail.errors import BadData, BadValue
from agentrail.events import EVENTS, Envelope, Event, ToolCalls
from agentrail.hooks.ruling import Pause, Position
from agentrail.models import AssistantMessage, Data, Json, Part, Text, ToolCall, ToolMessage, Usage, UserMessage
from agentrail.tools import ToolSpec
from tests.codec.plain import encode
from tests.codec.sampling import event_sample
from tests.each_case import each_case
from tests.kit import AnyInput, Arrival, PromptSent, Refused

CALL: dict[str, object] = {"call_id": "c1", "name": "read"}


DATA: list[tuple[object, object, str]] = [
    (int, "5", "it is text where a whole number is wanted"),
    (int, 5.0, "it is a number where a whole number is wanted"),
    (int, True, "it is a boolean where a whole number is wanted"),
    (int, 2**64, "it is a whole number that does not fit 64 bits, which JSON cannot hold"),
    (float, "1.5", "it is text where a number is wanted"),
    (float, False, "it is a boolean where a number is wanted"),
    (float, float("nan"), "it is the number nan, which JSON cannot hold"),
    (bool, 1, "it is a whole number where a boolean is wanted"),
    (bool, "no", "it is text where a boolean is wanted"),
    (str, None, "it is nothing where text is wanted"),
    (str, 5, "it is a whole number where text is wanted"),
    (str, "\ud800", "it is text with half a surrogate pair, which JSON cannot hold"),
    (type(None), 0, "it is a whole number where nothing is wanted"),
    (tuple[int, ...], "12", "it is text where an array is wanted"),
    (tuple[int, ...], [1, "2"], "its `[1]` is text where a whole number is wanted"),
    (tuple[int, str], [1], "it holds 1 things where 2 are wanted"),
    (tuple[int, str], [1, 2], "its `[1]` is a whole number where text is wanted"),
    (ToolCall, [], "it is an array where an object is wanted"),
    (ToolCall, {"call_id": "c1"}, "it lacks `name`"),
    (ToolCall, CALL | {"Name": 1, "x" * 99: 2}, "it has the key `Name`, which is not known"),
    (ToolCall, CALL | {"args": []}, "its `args` is a `tuple` where a JSON object is wanted"),
    (ToolCall, CALL | {"args": {"a": [float("inf")]}}, "its `args.a[0]` is the number inf, which JSON cannot hold"),
    (ToolCall, CALL | {"args": {1: 2}}, "its `args` is the key 1, which is not text, which JSON cannot hold"),
    (ToolCall, CALL | {"x" * 99: 2}, f"it has the key `{'x' * 57}...`, which is not known"),
    (ToolCall, CALL | {"$": "Text"}, "it has the key `$`, which is not known"),
    (ToolCall, {"call_id": 1, "name": "read", "more": 1}, "its `call_id` is a whole number where text is wanted"),
    (ToolCall, {"call_id": 1, "more": 1}, "its `call_id` is a whole number where text is wanted"),
    (ToolCall, {"call_id": 1, "name": "read", "$": "Text"}, "its `call_id` is a whole number where text is wanted"),
    (ToolCall, {"call_id": 1, "args": {}}, "its `call_id` is a whole number where text is wanted"),
    (Part, {"text": "x"}, "it lacks `$`"),
    (Part, {"$": "Thinking", "text": "x"}, "its `$` is none of those that are known"),
    (Part, {"$": ["Text"], "text": "x"}, "its `$` is an array where text is wanted"),
    (Part, "text", "it is text where an object is wanted"),
    (
        AssistantMessage,
        {"parts": [{"$": "Text", "text": "x"}, {"$": "Thinking", "text": 1}]},
        "its `parts[1].text` is a whole number where text is wanted",
    ),
    (AssistantMessage, {"stop": "End"}, "its `stop` is none of those that are known"),
    (AssistantMessage, {"stop": ["end"]}, "its `stop` is an array where text is wanted"),
    (ToolMessage, {}, "it lacks `call_id`"),
    (Event, {"ref": "p1"}, "it lacks `$`"),
    (Refused, {"name": "Nonsense", "facts": []}, "it names no error of ours"),
    (Refused, {"name": "Busy", "facts": [], "more": 1}, "it has the key `more`, which is not known"),
    (Refused, {"name": "Busy"}, "its `facts` holds 0 things where 1 are wanted"),
    (Refused, {"name": "Busy", "facts": []}, "its `facts` holds 0 things where 1 are wanted"),
    (Refused, {"name": "Busy", "facts": [1]}, "its `facts[0]` is a whole number where text is wanted"),
    (Refused, "Busy", "it is text where an object is wanted"),
    (
        AnyInput,
        {"$": "ToolCalls", "count": 1},
        "its `$` is none of those that are known",
    ),
]


@each_case(DATA)
def test_data_of_another_kind_is_refused(wanted: object, data: object, problem: str) -> None:
    with pytest.raises(BadData) as refused:
        decode(wanted, data)
    _, place, said = refused.value.args
    assert f"{place} {said}" == problem


def test_the_refusal_says_what_was_read() -> None:
    with pytest.raises(BadData, match="cannot read a `ToolCall`: it lacks `name`"):
        decode(ToolCall, {"call_id": "c1"})


VALUES: list[tuple[object, str]] = [
    (ToolCalls("3"), "its `count` is text where a whole number is wanted"),  # type: ignore[arg-type]
    (ToolCalls(True), "its `count` is a boolean where a whole number is wanted"),
    (ToolCalls(2**64), "its `count` is a whole number that does not fit 64 bits"),
    (ToolCalls(-(2**63) - 1), "its `count` is a whole number that does not fit 64 bits"),
    (Data((0.5, 2**64)), "its `data[1]` is a whole number that does not fit 64 bits"),
    (Data(cast("Json", {"0.5": 2**70})), "its `data['0.5']` is a whole number that does not fit 64 bits"),
    (Text(None), "its `text` is nothing where text is wanted"),  # type: ignore[arg-type]
    (Text("\ud800"), "its `text` is text with half a surrogate pair"),
    (Data(object()), "its `data` is an `object`, which JSON cannot hold"),  # type: ignore[arg-type]
    (UserMessage([Text("x")]), "its `parts` is a `list`, and does not come back from JSON as it was"),  # type: ignore[arg-type]
    (UserMessage((Text("x"), "y")), "its `parts[1]` is text where an object is wanted"),  # type: ignore[arg-type]
    (UserMessage((), "prompt"), "its `origin` is a `str`, and does not come back from JSON as it was"),  # type: ignore[arg-type]
    (
        Arrival(PromptSent((Data(float("nan")),)), 1),
        "its `input.parts[0].data` is nan, which JSON cannot hold",
    ),
    (
        Arrival(cast("AnyInput", Text("x")), 1),
        "its `input.$` is none of those that are known",
    ),
    (ToolSpec("t", "d").but(requires=["x"]), "its `requires` is a `list`, and does not come back from JSON as it was"),
    (Usage(cost_usd=float("inf")), "its `cost_usd` is inf, which JSON cannot hold"),
    (Pause(Position(), deadline=float("nan")), "its `deadline` is nan, which JSON cannot hold"),  # msgspec: `null`
    (ToolCalls(cast("int", 1.0)), "its `count` is a number where a whole number is wanted"),
    (object(), "it is an `object`, which JSON cannot hold"),
]


@each_case(VALUES)
def test_a_value_that_could_not_be_read_back_is_not_written(value: object, problem: str) -> None:
    with pytest.raises(BadValue) as refused:
        encode(value)
    given_, place, said = refused.value.args
    assert (given_, f"{place} {said}") == (type(value).__name__, problem)


ODD: list[Json] = ["odd", 987_654, -12.75, True, None, ["odd"], {"odd": 1}, {"$": "Text", "text": "odd"}]


@pytest.mark.long
@given(st.sampled_from(EVENTS), st.data())
def test_what_is_accepted_is_kept(cls: type[Event], data: st.DataObject) -> None:
    """Put something odd into a sample: it is refused, or what is made of it says so when it is written again."""
    whole = from_text(to_text(encode(event_sample(cls))))
    place, key = data.draw(st.sampled_from([place for place in _places(whole) if place[1] != "v"]))
    odd = data.draw(st.sampled_from(ODD))
    place[key] = odd
    try:
        value = decode(Envelope, whole)
    except BadData:
        return
    again = from_text(to_text(encode(value)))
    if odd not in (None, True):
        assert _as_given(again) == _as_given(whole)


def _as_given(value: object) -> object:
    """Return *value* with each event of an unknown kind as it was given: it is kept in an `UnknownEvent`."""
    if isinstance(value, dict):
        found = {key: _as_given(item) for key, item in cast("dict[str, object]", value).items()}
        if found.get("$") == "UnknownEvent" and isinstance(found.get("body"), dict):
            return {"$": found["kind"], **cast("dict[str, object]", found["body"])}
        return found
    return [_as_given(item) for item in cast("list[object]", value)] if isinstance(value, list) else value


def _places(value: object) -> list[tuple[dict[object, object], object]]:
    """List every place in *value*: what it is in, and its key or index there."""
    if not isinstance(value, dict | list):
        return []
    inside = cast("dict[object, object]", value)
    keys = list(inside) if isinstance(value, dict) else list(range(len(inside)))
    return [(inside, key) for key in keys] + [place for key in keys for place in _places(inside[key])]


class Endless(Mapping[str, object]):
    """A mapping that claims the length 1, and whose iterator never ends."""

    def __getitem__(self, key: str) -> object:
        return key

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        return map(str, count())


class EndlessTuple(tuple[object, ...]):
    """A tuple whose iterator never ends."""

    __slots__ = ()

    def __iter__(self) -> Iterator[object]:
        return cycle("a")


@pytest.mark.parametrize(
    "odd",
    [Endless(), MappingProxyType(Endless()), EndlessTuple(), {"a": Endless()}],
    ids=["bare", "proxy", "tuple", "in"],
)
def test_what_never_ends_is_refused(odd: object) -> None:
    with pytest.raises(BadValue, match=r"its `parts\[0\].text"):
        encode(PromptSent((Text(cast("str", odd)),)))


@pytest.mark.parametrize("random", [0.0012345678901234567, 1.2345678901234567e-05, 0.012345678901234567])
def test_a_fraction_of_many_digits_is_no_wide_number(random: float, monkeypatch: pytest.MonkeyPatch) -> None:
    arrival = Arrival(PromptSent((Text("go on"),)), 1_795_474_115_880, random)
    monkeypatch.setattr(values, "_check_leaves", lambda _: pytest.fail("each leaf was looked at"))
    assert read(Arrival, write(arrival)) == arrival

"""Arguments have a maximal size and depth: a larger call gets an error result that says so, at little cost."""

from __future__ import annotations

from typing import Final

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from agentrail.adapters.models.wire_format import arguments
from agentrail.errors import TurnAborted
from agentrail.models import FrozenObject, Json, JsonObject, ToolCall, ToolMessage
from agentrail.testing import call, say
from agentrail.values.json import excess
from tests.kit import freeze_object
from tests.runtime.tools import Fake, quick
from tests.runtime.world import World


async def result_for(world: World, args: JsonObject) -> ToolMessage:
    """Return the result that the model gets for a call with *args*."""
    session = await world.spawn(
        [say(calls=[ToolCall("", "take", args if isinstance(args, FrozenObject) else freeze_object(args))]), "next"],
        tools=[quick("take")],
    )
    reply = await session.ask("go")
    return next(message for message in reply.messages if isinstance(message, ToolMessage))


REFUSED: list[tuple[JsonObject, str]] = [
    ({f"k{n}": n for n in range(15_000)}, "they have more than 10000 keys and items; send less in one call"),
    ({"x": tuple(range(10_000))}, "they have more than 10000 keys and items; send less in one call"),
    ({"x": "a" * 1_000_001}, "they have more than 1000000 characters; send less in one call"),
    ({"a" * 1_000_001: 1}, "they have more than 1000000 characters; send less in one call"),
]


@pytest.mark.long
@pytest.mark.parametrize(("args", "why"), REFUSED, ids=["keys", "items", "characters", "a key"])
async def test_too_much_is_an_error_result_that_says_so(world: World, args: JsonObject, why: str) -> None:
    message = await result_for(world, freeze_object(args, [200_000]))
    assert (message.text, message.is_error) == (f"the arguments do not fit `take`: {why}", True)


@pytest.mark.long
async def test_as_much_as_may_be_is_taken(world: World) -> None:
    args = {"x": tuple(range(9_998)), "y": "a" * 999_998}
    assert not (await result_for(world, freeze_object(args))).is_error


WRITTEN = [
    '{"x":' * 65 + "1" + "}" * 65,
    '{"x":' + "[" * 100_000,
    '{"x": [1' + ", 1" * 9_999 + "]}",
    '{"x": 1',
    "[1]",
    "7",
]


@pytest.mark.parametrize(
    "written", WRITTEN, ids=["65 levels", "100,000 levels", "10,001 items", "cut", "a list", "a number"]
)
async def test_what_is_too_deep_too_much_or_no_object_is_an_error_result_that_says_so(
    world: World, written: str
) -> None:
    message = await result_for(world, arguments(written))
    problem = "they are no JSON object, or one of more than 64 levels or 10000 keys and items"
    text = f"the arguments do not fit `take`: {problem}"
    assert (message.text, message.is_error) == (text, True)


SOME_JSON: st.SearchStrategy[Json] = st.recursive(
    st.sampled_from(["", "a", "abc", 1, None, True]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)


def size_of(json: Json) -> tuple[int, int]:
    """Return how many characters, and how many keys and items, *json* has."""
    if isinstance(json, str):
        return len(json), 0
    if not isinstance(json, dict | tuple):
        return 0, 0
    inner = [size_of(item) for item in (json.values() if isinstance(json, dict) else json)]
    keys = sum(map(len, json)) if isinstance(json, dict) else 0
    return keys + sum(chars for chars, _ in inner), len(json) + sum(items for _, items in inner)


@pytest.mark.long
@given(st.dictionaries(st.sampled_from("abc"), SOME_JSON), st.integers(0, 20), st.integers(0, 20))
def test_the_size_is_measured(json_object: JsonObject, chars: int, items: int) -> None:
    args = freeze_object(json_object)
    written, counted = size_of(args)
    more = excess(args, chars, items)
    assert (more is None) == (written <= chars and counted <= items)


MANY_RULES: JsonObject = freeze_object(
    {"type": "object", "properties": {"x": {"type": "array", "items": {"allOf": [{"type": "integer"}] * 600}}}}
)
"""A schema that takes some 600 steps for each item of `x`."""

MANY_ITEMS: Final = tuple(range(100))
"""Items that `MANY_RULES` takes more than 50,000 steps for."""


def ruled() -> Fake:
    """Return a tool with the schema `MANY_RULES`."""
    tool = quick("take")
    return evolve(tool, spec=tool.spec.but(parameters=MANY_RULES))


@pytest.mark.long
async def test_the_calls_of_one_response_share_the_steps_of_their_checks(world: World) -> None:
    calls = [call("take", {"x": (number, *MANY_ITEMS)}) for number in range(64)]
    session = await world.spawn([say(calls=calls), "next"], tools=[ruled()])
    reply = await session.ask("go")
    texts = [message.text for message in reply.messages if isinstance(message, ToolMessage)]
    text_ = "they cannot be checked (that takes more than 50000 steps"
    together = "they cannot be checked (the calls of this response take more than 100000 steps together)"
    assert [text_ in text for text in texts] == [True] * 2 + [False] * 62
    assert [together in text for text in texts] == [False] * 2 + [True] * 62


@pytest.mark.long
async def test_the_steps_are_those_of_one_response(world: World) -> None:
    script = [say(calls=[call("take", {"x": (number, *MANY_ITEMS)}) for number in range(2)]) for _ in range(3)]
    session = await world.spawn([*script, "next"], tools=[ruled()])
    reply = await session.ask("go")
    texts = [message.text for message in reply.messages if isinstance(message, ToolMessage)]
    assert ["of this response" in text for text in texts] == [False] * 6


@pytest.mark.long
async def test_a_response_with_far_too_much_in_its_calls_is_refused_as_a_whole(world: World) -> None:
    args = freeze_object({f"k{n}": n for n in range(100_000)}, [200_000])
    session = await world.spawn([say(calls=[ToolCall("", "take", args)]), "fine"], tools=[quick("take")])
    with pytest.raises(TurnAborted, match="provider_error"):
        await session.ask("go")
    assert (await session.ask("go")).text == "fine"

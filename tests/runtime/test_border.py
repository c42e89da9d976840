"""Values from callers, tools and models are made storable or refused; a refused one ends its own call or turn."""

import re
from pathlib import Path

import pytest
import trio

import agentrail
from agentrail.models import Data, JsonObject, Text, ToolMessage
from agentrail.testing import call, say
from agentrail.tools import Effect, Ok, SetTodos, ToolContext, ToolResult, ok
from tests.runtime.tools import Fake, fake
from tests.runtime.world import World, settle

HALF = "half a pair: \ud800"


async def test_a_tool_that_says_what_cannot_be_kept_is_a_failed_call(world: World) -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ok(HALF)

    assert await tried(world, fake("odd", body)) == HALF.replace("\ud800", "\ufffd")


async def tried(world: World, odd: Fake) -> str:
    """Return the result of a call to *odd*, after which the turn must have gone on."""
    session = await world.spawn([say(calls=[call(odd.spec.name)]), "fine"], tools=[odd])
    reply = await session.ask("go")
    assert reply.text == "fine"
    (result,) = [message for message in reply.messages if isinstance(message, ToolMessage)]
    return result.text


ODD_RESULTS: list[object] = [
    None,
    "text",
    Ok(("text",)),  # type: ignore[arg-type]  # on purpose
    Ok((Text(42),)),  # type: ignore[arg-type]
    Ok((Data({1, 2}),)),  # type: ignore[arg-type]
    Ok((Text("x"),), {"when": object()}),  # type: ignore[dict-item]
    Effect(SetTodos((42,))),  # type: ignore[arg-type]
    Effect(42),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("odd", ODD_RESULTS)
async def test_a_tool_that_returns_what_cannot_be_kept_is_a_failed_call(world: World, odd: ToolResult) -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return odd

    assert "failed" in await tried(world, fake("odd", body))


async def test_a_model_that_says_what_cannot_be_kept_does_not_end_the_session(world: World) -> None:
    session = await world.spawn([say(HALF, thinking=HALF, calls=[call(HALF, id=HALF)]), "fine"])
    reply = await session.ask("go")
    assert reply.text == "fine"
    await settle()
    assert "\ud800" not in world.heard(session).said


@pytest.mark.long
def test_errors_are_written_to_the_log_by_one_function() -> None:
    """`logging` raises when it writes a deeply nested error; one function catches that."""
    names = {
        path.name
        for path in Path(agentrail.__file__).parent.rglob("*.py")
        if re.search(r"exc_info=|\.exc_text =", path.read_text())
    }
    assert names == {"untrusted_calls.py"}

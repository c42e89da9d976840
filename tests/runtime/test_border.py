"""Values from callers, tools and models are made storable or refused; a refused one ends its own call or turn."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio

import agentrail
from agentrail import SessionHandle
from agentrail.errors import (
    UsageError,
)
from agentrail.models import Data, JsonObject, Text, ToolMessage
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Effect, Ok, SetTodos, ToolContext, ToolResult, ok
from tests.runtime.tools import Fake, fake
from tests.runtime.world import World, settle


@pytest.fixture
async def bystander(world: World) -> AsyncIterator[SessionHandle]:
    """Yield a session that has to answer before and after the test of another session."""
    session = await world.spawn(ScriptedModel(["fine"], repeat_last=True), "bystander")
    assert (await session.ask("how are you?")).text == "fine"
    yield session
    assert (await session.ask("and now?")).text == "fine"


HALF = "half a pair: \ud800"


@pytest.mark.parametrize(
    "doing",
    [
        lambda session: session.prompt(HALF),
        lambda session: session.ask([Text(HALF)]),
        lambda session: session.steer(HALF),
        lambda session: session.abort(HALF),
        lambda session: session.reject("x", HALF),
        lambda session: session.respond("x", HALF),
        lambda session: session.approve("x", {"a": HALF}),
        lambda session: session.compact(HALF),
        lambda session: session.switch_model("demo", option=HALF),
        lambda session: session.switch_model("demo", option=object()),
        lambda session: session.prompt(42),
        lambda session: session.prompt([42]),
        lambda session: session.prompt(None),
        lambda session: session.steer(42),
        lambda session: session.steer(None),
        lambda session: session.approve(None),
        lambda session: session.reject(None),
        lambda session: session.respond("x", None),
        lambda session: session.withdraw(None),
        lambda session: session.stop(None),
        lambda session: session.prompt("hi", command=42),
        lambda session: session.prompt("hi", command=HALF),
        lambda session: session.stop(HALF),
    ],
)
async def test_what_cannot_be_kept_is_refused_and_harms_nobody(
    bystander: SessionHandle, doing: Callable[[SessionHandle], Awaitable[object]]
) -> None:
    with pytest.raises(UsageError):
        await doing(bystander)
    assert (await bystander.ask("still there?")).text == "fine"


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

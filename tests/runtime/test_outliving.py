"""Tools that outlive their turn: quarantined ones that ignore a cancellation, and immune ones in the background."""

from collections.abc import Callable

import pytest
import trio

from agentrail.errors import ToolError
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    RequestStart,
    ToolAbandoned,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolKilled,
    ToolSkippedForSteering,
)
from agentrail.models import JsonObject, Origin, ToolMessage, UserMessage
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import EffectClass, ToolContext, ToolResult, ok
from tests.kit import Element
from tests.runtime.tools import Fake, fake, raising, shielded, slow, swallowing
from tests.runtime.world import World, settle, until

STUBBORN = [shielded, swallowing]


@pytest.mark.parametrize("make", STUBBORN)
async def test_a_stubborn_tool_is_reported_after_its_grace_and_listed_until_it_ends(
    world: World, make: Callable[[], Fake]
) -> None:
    tool = make()
    session = await world.spawn([say(calls=[call(tool.spec.name)]), "next"], tools=[tool])
    await session.prompt("go")
    await trio.sleep(1)
    await session.abort()
    heard = world.heard(session)
    (listed,) = session.status().quarantined
    assert (listed.name, listed.abandoned) == (tool.spec.name, False)
    await trio.sleep(0.24)
    assert heard.of(ToolAbandoned) == []
    await trio.sleep(0.02)
    assert heard.only(ToolAbandoned).name == tool.spec.name
    assert heard.at(ToolAbandoned)[0] - heard.at(AgentAbort)[0] == 250
    assert session.status().quarantined[0].abandoned
    await trio.sleep(2)
    assert session.status().quarantined == ()
    assert [event for event in heard.of(ToolExecutionEnd) if event.late] == []


@pytest.mark.parametrize("make", STUBBORN)
async def test_it_delays_nothing(world: World, make: Callable[[], Fake]) -> None:
    tool = make()
    model = ScriptedModel([say(calls=[call(tool.spec.name)]), "next"])
    session = await world.spawn(model, tools=[tool])
    await session.prompt("go")
    await trio.sleep(1)
    old_time = trio.current_time()
    await session.abort()
    assert trio.current_time() - old_time < 0.01
    assert (await session.ask("go on")).text == "next"
    assert trio.current_time() - old_time < 0.01
    heard = world.heard(session)
    await settle()
    assert heard.only(ToolKilled).name == tool.spec.name
    assert session.status().quarantined != ()


async def test_one_that_ends_within_its_grace_is_not_reported(world: World) -> None:
    tool = shielded(seconds=1.2)
    session = await world.spawn([say(calls=[call("shielded")]), "next"], tools=[tool])
    await session.prompt("go")
    await trio.sleep(1)
    await session.abort()
    await trio.sleep(10)
    assert world.heard(session).of(ToolAbandoned) == []
    assert session.status().quarantined == ()


async def test_steering_past_a_stubborn_tool_is_not_delayed(world: World) -> None:
    session = await world.spawn([say(calls=[call("shielded")]), "next"], tools=[shielded()])
    await session.prompt("go")
    await trio.sleep(1)
    await session.steer("the other")
    await settle()
    heard = world.heard(session)
    assert heard.only(ToolSkippedForSteering).name == "shielded"
    assert heard.at(RequestStart)[1] - heard.at(ToolSkippedForSteering)[0] <= 10
    await until(lambda: heard.of(ToolAbandoned))


async def test_a_file_tool_waits_for_a_stubborn_writer_at_most_its_grace(world: World) -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        with trio.CancelScope(shield=True):
            await trio.sleep(3)
        return ok("written")

    async def reading(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ok("read")

    files = frozenset({"files"})
    tools = [fake("write", body, requires=files), fake("read", reading, requires=files), fake("count", reading)]
    script: list[Element] = [say(calls=[call("write")]), say(calls=[call("read"), call("count")]), "done"]
    session = await world.spawn(script, tools=tools)
    await session.prompt("go")
    await trio.sleep(1)
    await session.steer("rather read it")
    await until(lambda: world.heard(session).of(AgentEnd))
    heard = world.heard(session)
    started = dict(
        zip([event.name for event in heard.of(ToolExecutionStart)], heard.at(ToolExecutionStart), strict=True)
    )
    skipped = heard.at(ToolSkippedForSteering)[0]
    assert started["count"] - skipped <= 10
    assert 240 <= started["read"] - skipped <= 260


async def test_a_tool_that_runs_too_long_is_stopped_and_the_turn_goes_on(world: World) -> None:
    session = await world.spawn([say(calls=[call("slow")]), "next"], tools=[slow(seconds=30, timeout=2.0)])
    start = trio.current_time()
    reply = await session.ask("go")
    assert reply.text == "next"
    assert trio.current_time() - start == pytest.approx(2.0, abs=0.01)
    (result,) = [message for message in reply.messages if isinstance(message, ToolMessage)]
    assert result.is_error
    assert "stopped after 2 s" in result.text


async def test_an_immune_tool_lingers_and_its_outcome_is_told(world: World) -> None:
    model = ScriptedModel([say(calls=[call("slow")]), "first", "second"])
    session = await world.spawn(model, tools=[slow(immune=True)])
    await session.prompt("go")
    await trio.sleep(1)
    await session.abort()
    (lingering,) = session.status().lingering
    assert lingering.name == "slow"
    assert (await session.ask("beside it")).text == "first"
    await trio.sleep(5)
    heard = world.heard(session)
    (late,) = [event for event in heard.of(ToolExecutionEnd) if event.late]
    assert (late.name, late.is_error) == ("slow", False)
    assert session.status().lingering == ()
    old_messages = session.messages()
    await session.ask("and now?")
    notices = [
        m for m in session.messages()[len(old_messages) :] if isinstance(m, UserMessage) and m.origin is Origin.NOTICE
    ]
    assert ["done after 3 s" in notice.text for notice in notices] == [True]


@pytest.mark.long
async def test_an_immune_tool_is_left_alone_by_steering(world: World) -> None:
    session = await world.spawn(
        [say(calls=[call("slow"), call("quick")]), "next"], tools=[slow(immune=True), slow("quick")]
    )
    await session.prompt("go")
    await trio.sleep(1)
    await session.steer("other")
    await until(lambda: world.heard(session).of(AgentEnd))
    heard = world.heard(session)
    assert [event.name for event in heard.of(ToolSkippedForSteering)] == ["quick"]
    assert [event.name for event in heard.of(ToolExecutionEnd)] == ["slow"]
    assert heard.at(RequestStart)[1] - heard.at(RequestStart)[0] == pytest.approx(3000, abs=5)


async def test_progress_is_heard_while_a_call_runs_and_not_behind_its_cancellation(world: World) -> None:
    async def body(_args: JsonObject, ctx: ToolContext) -> ToolResult:
        with trio.CancelScope(shield=True):
            for step in range(5):
                ctx.report(f"step {step}")
                await trio.sleep(1)
        return ok("done")

    session = await world.spawn([say(calls=[call("chatty")]), "next"], tools=[fake("chatty", body)])
    await session.prompt("go")
    await trio.sleep(1.5)
    await session.abort()
    await trio.sleep(10)
    assert [event.update for event in world.heard(session).of(ToolExecutionUpdate)] == ["step 0", "step 1"]


async def test_a_tool_that_breaks_is_run_again_only_where_that_is_safe(world: World) -> None:
    safe, unsafe = raising("safe", effect=EffectClass.PURE), raising("unsafe")
    session = await world.spawn([say(calls=[call("safe"), call("unsafe")]), "done"], tools=[safe, unsafe])
    reply = await session.ask("go")
    assert (len(safe.calls), len(unsafe.calls)) == (3, 1)
    results = [message for message in reply.messages if isinstance(message, ToolMessage)]
    assert all(result.is_error and "RuntimeError: it broke" in result.text for result in results)
    keys = {ctx.idempotency_key for ctx in safe.calls}
    assert len(keys) == 1


def deep(levels: int) -> Exception:
    """Return an error inside more groups than recursion could open."""
    inside: list[Exception] = [ValueError("at the bottom")]
    for _ in range(levels):
        inside = [ExceptionGroup("outer", inside)]
    return inside[0]


class Panic(BaseException):
    """An error that an extension in another language may raise."""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ExceptionGroup("outer", [ExceptionGroup("inner", [ToolError("no such city")])]), "no such city"),
        (ExceptionGroup("outer", [ValueError("one")]), "ValueError: one"),
        (
            ExceptionGroup("two", [ValueError("one"), KeyError("two")]),
            "ExceptionGroup: two (2 sub-exceptions): ValueError: one; KeyError: 'two'",
        ),
        (deep(5000), "ValueError: at the bottom"),
        (Panic("index out of range"), "Panic: index out of range"),
        (BaseExceptionGroup("outer", [Panic("index out of range")]), "Panic: index out of range"),
        (GeneratorExit("over"), "GeneratorExit: over"),
        (SystemExit("usage"), "SystemExit: usage"),
    ],
)
async def test_whatever_a_tool_raises_is_its_result_and_ends_nothing(
    world: World, error: BaseException, text: str
) -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        raise error

    session = await world.spawn([say(calls=[call("odd")]), "done", "there"], tools=[fake("odd", body)])
    reply = await session.ask("go")
    (result,) = [message for message in reply.messages if isinstance(message, ToolMessage)]
    assert result.is_error
    assert text in result.text
    assert (await session.ask("still there?")).text == "there"


async def test_a_cancellation_kept_from_one_call_and_raised_in_another_is_a_crash_of_that_call(world: World) -> None:
    remaining: list[trio.Cancelled] = []

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        if remaining:
            raise remaining[0]
        try:
            await trio.sleep_forever()
        except trio.Cancelled as error:
            remaining.append(error)
            raise
        raise AssertionError

    script: list[Element] = [say(calls=[call("once")]), say(calls=[call("once")]), "done"]
    session = await world.spawn(script, tools=[fake("once", body, effect=EffectClass.PURE)])
    await session.prompt("go")
    await trio.sleep(1)
    await session.abort()
    reply = await session.ask("again")
    (result,) = [message for message in reply.messages if isinstance(message, ToolMessage)]
    assert "Cancelled" in result.text
    assert reply.text == "done"


async def test_progress_that_is_no_text_is_a_failed_call_that_says_so(world: World) -> None:
    async def body(_args: JsonObject, ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        ctx.report(0.5)  # type: ignore[arg-type]  # on purpose
        return ok("done")

    session = await world.spawn([say(calls=[call("odd")]), "done"], tools=[fake("odd", body)])
    (result,) = [m for m in (await session.ask("go")).messages if isinstance(m, ToolMessage)]
    assert "UnfitError: it has 0.5 where text is wanted" in result.text


async def test_a_tool_that_cancels_itself_is_a_cancelled_call(world: World) -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        with trio.move_on_after(1):
            await trio.sleep(5)
        return ok("gave up")

    session = await world.spawn([say(calls=[call("own")]), "done"], tools=[fake("own", body)])
    reply = await session.ask("go")
    (result,) = [message for message in reply.messages if isinstance(message, ToolMessage)]
    assert result.text == "gave up"


async def test_a_tool_that_is_not_parallel_runs_alone(world: World) -> None:
    log: list[str] = []

    async def body(args: JsonObject, _ctx: ToolContext) -> ToolResult:
        log.append(f"begin {args['n']}")
        await trio.sleep(1)
        log.append(f"end {args['n']}")
        return ok("done")

    tools = [fake("solo", body, parallel=False), fake("work", body)]
    calls = [call("work", {"n": 1}), call("solo", {"n": 2}), call("work", {"n": 3})]
    session = await world.spawn([say(calls=calls), "done"], tools=tools)
    await session.ask("go")
    assert log == ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]

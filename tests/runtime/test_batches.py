"""The calls of one response: they run side by side, and the model gets their results in order."""

import logging
from collections.abc import Sequence

import pytest
import trio

from agentrail import Context, Continue, HoldTool, Plugin
from agentrail.events import ApprovalRequired, ToolExecutionEnd, ToolExecutionMetrics, ToolExecutionStart
from agentrail.journals import Record
from agentrail.models import Data, FrozenObject, Image, JsonObject, Part, Text, ToolMessage, Usage
from agentrail.plugins import BeforeTool
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Ok, ToolContext, ToolResult, ok, tool
from tests.kit import Element, freeze_object
from tests.runtime.journals import TestJournal
from tests.runtime.tools import Fake, fake, quick, raising, slow
from tests.runtime.world import World, open_world, until


@tool
async def area(width: int) -> int:  # noqa: ASYNC124 - a tool is async
    """Square."""
    return width * width


async def results(world: World, *tools: object, calls: list[str], max_parallel_tools: int = 8) -> list[ToolMessage]:
    """Return the results that the model gets for *calls*, in order."""
    session = await world.spawn(
        [say(calls=[call(name) for name in calls]), "next"], tools=tools, max_parallel_tools=max_parallel_tools
    )
    reply = await session.ask("go")
    return [message for message in reply.messages if isinstance(message, ToolMessage)]


async def test_results_come_in_the_order_of_the_calls_and_no_call_disturbs_another(world: World) -> None:
    tools = [slow("late", 3), raising(), quick(), slow("soon", 1), slow("stuck", 100, timeout=2)]
    names = ["late", "raising", "unknown", "area", "quick", "stuck", "soon"]
    reported_results = await results(world, *tools, area, calls=names)
    assert [message.name for message in reported_results] == names
    assert [message.is_error for message in reported_results] == [False, True, True, True, False, True, False]
    assert [message.text for message in reported_results if not message.is_error] == [
        "done after 3 s",
        "done",
        "done after 1 s",
    ]


async def test_each_call_is_measured(world: World) -> None:
    session = await world.spawn(
        [say(calls=[call("late"), call("soon")]), "next"], tools=[slow("late"), slow("soon", 1)]
    )
    await session.ask("go")
    events = world.heard(session).of(ToolExecutionMetrics)
    assert [(event.name, event.duration_ms) for event in events] == [("soon", 1000), ("late", 3000)]
    assert all(event.ended_at_ms - event.started_at_ms == event.duration_ms for event in events)


async def test_the_model_sees_what_went_wrong_and_the_log_where(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "agentrail.tool"):
        (result,) = await results(world, raising(error=OSError("no disk")), calls=["raising"])
    assert (
        result.text == "the tool failed: OSError: no disk; it may have taken effect; find out before calling it again"
    )
    (record,) = caplog.records
    assert "raised in call c3: OSError\n  File " in record.getMessage()


async def test_a_long_result_is_cut_with_a_note(world: World) -> None:
    picture = Image("image/png", "AA==")
    parts: tuple[Part, ...] = (Text("x" * 70), picture, Text("y" * 70))

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return Ok(parts, FrozenObject(whole=True))

    long = fake("long", body)
    long.spec = long.spec.but(max_result_chars=100)
    session = await world.spawn([say(calls=[call("long")]), "next"], tools=[long])
    (reported_message,) = [
        message for message in (await session.ask("go")).messages if isinstance(message, ToolMessage)
    ]
    note = Text("\n[cut: 100 of 140 characters shown]")
    assert reported_message.parts == (Text("x" * 70), picture, Text("y" * 30), note)
    assert reported_message.details == FrozenObject(whole=True)
    assert world.heard(session).only(ToolExecutionEnd).details == FrozenObject(whole=True)


async def test_json_counts_as_text_and_is_text_when_it_is_cut(world: World) -> None:
    picture = Image("image/png", "AA==")
    short, long, rest = Data((1, 2)), Data({"found": ("x" * 200,)}), Data("z")

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return Ok((short, long, picture, rest))

    tool = fake("long", body)
    tool.spec = tool.spec.but(max_result_chars=100)
    (result,) = await results(world, tool, calls=["long"])
    text = Text('{"found":["' + "x" * 84)
    assert result.parts == (short, text, picture, Text("\n[cut: 100 of 222 characters shown]"))


async def test_waiting_for_a_place_is_no_running_time(world: World) -> None:
    tools = [slow("one", 3, timeout=4), slow("two", 3, timeout=4)]
    reported_results = await results(world, *tools, calls=["one", "two"], max_parallel_tools=1)
    assert [message.text for message in reported_results] == ["done after 3 s", "done after 3 s"]


class HoldsOne(Plugin[None]):
    """Holds the calls of one tool."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | HoldTool[None]:
        held = hook.name == "held" and not hook.approved
        return HoldTool("may it?", timeout=None) if held else Continue()


async def test_a_call_that_runs_alone_does_not_wait_for_held_ones_and_waiting_for_a_person_is_no_running_time(
    world: World,
) -> None:
    alone = fake("alone", quick().body, parallel=False)
    held = slow("held", 1, timeout=2)
    script: list[Element] = [say(calls=[call("held"), call("alone")]), "next"]
    session = await world.spawn(script, tools=[alone, held], plugins=[HoldsOne()])
    await session.prompt("go")
    heard = world.heard(session)
    await until(lambda: heard.of(ToolExecutionEnd))
    assert heard.only(ToolExecutionEnd).name == "alone"
    await trio.sleep(1000)
    await session.approve(heard.only(ApprovalRequired).approval_id)
    await until(lambda: len(heard.of(ToolExecutionEnd)) == 2)
    assert heard.of(ToolExecutionEnd)[1].text == "done after 1 s"


async def test_the_journal_holds_the_start_of_a_call_before_the_tool_runs(world: World) -> None:
    actual: list[bool] = []

    async def body(_args: JsonObject, ctx: ToolContext) -> ToolResult:
        records = await world.journal.read(ctx.session_id, 0, 100)
        starts = [
            event_.event
            for record in records
            for event_ in record.events
            if isinstance(event_.event, ToolExecutionStart)
        ]
        actual.append([event.call_id for event in starts] == [ctx.call_id])
        return ok("done")

    await results(world, fake("look", body), calls=["look"])
    assert actual == [True]


async def test_a_tool_knows_whose_call_it_is(world: World) -> None:
    known_fake: Fake = quick()
    script: list[Element] = [say(calls=[call("quick")], usage=Usage(input_tokens=30, output_tokens=4)), "next"]
    session = await world.spawn(
        ScriptedModel(script),
        "s-1",
        tools=[known_fake],
        user_data={"for": "Ada"},
        working_dir="/tmp",  # noqa: S108 - nothing is written
    )
    await session.ask("go")
    (ctx,) = known_fake.calls
    assert (ctx.session_id, ctx.idempotency_key) == ("s-1", f"s-1/{ctx.call_id}-{session.inspect().incarnation}")
    assert (ctx.working_dir, ctx.user_data, ctx.turn) == ("/tmp", freeze_object({"for": "Ada"}), 1)  # noqa: S108 - see above
    assert (ctx.model, ctx.todos, ctx.cost_usd) == (session.status().model, (), session.status().usage.cost_usd)
    assert ctx.total_tokens == 34
    assert None not in {ctx.sandbox, ctx.jobs, ctx.web, ctx.threads}


async def test_a_job_that_one_call_has_started_is_there_for_the_next(world: World) -> None:
    class Sleeping:
        async def run(self) -> None:
            await trio.sleep(1000)

    other: list[list[str]] = []

    async def body(_args: JsonObject, ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        assert ctx.jobs is not None
        other.append([job.command for job in ctx.jobs.all()])
        ctx.jobs.start(f"sleep {len(other)}", Sleeping())  # type: ignore[arg-type]  # no more of it is needed
        return ok("begun")

    rounds = [say(calls=[call("begin")])] * 2
    session = await world.spawn([*rounds, "fine"], tools=[fake("begin", body)])
    await session.ask("go")
    assert other == [[], ["sleep 1"]]
    assert session.inspect().background_jobs == ("job-1 `sleep 1`", "job-2 `sleep 2`")


def kinds(records: Sequence[Record]) -> list[str]:
    return [type(record.arrival.input).__name__ for record in records]


async def test_results_that_come_at_once_are_one_record() -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn([say(calls=[call("quick")] * 8), "next"], tools=[quick()])
        commits = journal.commits
        assert (await session.ask("go")).text == "next"
        report = kinds(await journal.read(session.id, 1))
        assert report == ["PromptSent", "StreamEnded", "CallsEnded", "StreamEnded"]
        assert journal.commits == commits + len(report)

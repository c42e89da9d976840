"""An abort does not wait for the mailbox, nor for the disk."""

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio

from agentrail import SessionHandle, open_supervisor
from agentrail.core.vocabulary.commands import Kill
from agentrail.errors import PromptWasDropped, TurnAborted
from agentrail.events import (
    AbortPending,
    AgentAbort,
    AgentEnd,
    AgentResumed,
    MessageDelta,
    PromptDropped,
    PromptReceived,
    RequestStart,
    Retry,
    SteeringApplied,
    SteeringReceived,
    ToolExecutionEnd,
    ToolKilled,
    ToolSkippedForSteering,
)
from agentrail.models import AssistantMessage, JsonObject, ToolMessage, UserMessage
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.tools import ToolContext, ToolResult, ok
from tests.kit import AbortSent, Element
from tests.runtime.journals import TestJournal
from tests.runtime.tools import Fake, fake, slow
from tests.runtime.world import World, open_world, settle, spec_of, stop_at_the_end, until

AT_ONCE = 0.1


class Watched:
    """A tool that notes when it was cancelled."""

    def __init__(self, name: str = "watched", *, immune: bool = False) -> None:
        self.cancelled_at: float | None = None
        self.ended_at: float | None = None
        self.tool: Fake = fake(name, self.body, immune=immune)

    async def body(self, _args: JsonObject, _ctx: ToolContext) -> ToolResult:
        try:
            await trio.sleep(30)
        except trio.Cancelled:
            self.cancelled_at = trio.current_time()
            raise
        self.ended_at = trio.current_time()
        return ok("done")


@pytest.fixture
async def late() -> AsyncIterator[tuple[World, TestJournal]]:
    journal = TestJournal()
    async with open_world(journal) as world:
        yield world, journal


async def test_a_stream_is_cut_at_once_though_the_commit_takes_a_second(late: tuple[World, TestJournal]) -> None:
    world, journal = late
    session = await world.spawn([say("word " * 100, delay=0.01), "next"])
    await session.prompt("go")
    await trio.sleep(0.205)
    journal.commit = 1.0
    called = trio.current_time()
    await session.abort("stop it")
    assert trio.current_time() - called == pytest.approx(1.0, abs=0.01)
    heard = world.heard(session)
    assert heard.at(MessageDelta)[-1] - heard.at(PromptReceived)[0] <= 210
    assert len(heard.of(AbortPending)) == 1
    pending, aborted = heard.at(AbortPending)[0], trio.current_time() - called
    assert pending - heard.at(PromptReceived)[0] <= 205 + 100
    assert aborted >= 1.0
    await settle()
    assert heard.only(AgentAbort).reason == "stop it"


async def test_it_is_cut_at_once_also_while_another_commit_is_late(late: tuple[World, TestJournal]) -> None:
    world, journal = late
    session = await world.spawn([say("word " * 1000, delay=0.01)])
    await session.prompt("go")
    await trio.sleep(0.205)
    journal.commit = 1.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.prompt, "queued")
        await trio.sleep(0.98)
        old_count = len(world.heard(session).of(MessageDelta))
        nursery.start_soon(session.abort)
        await trio.sleep(AT_ONCE)
        heard = world.heard(session)
        assert len(heard.of(MessageDelta)) <= old_count + 1
        assert len(heard.of(AbortPending)) == 1, "the queued prompt became durable meanwhile, the abort did not"
        journal.commit = None


async def test_killable_tools_are_cancelled_at_once_though_the_commit_takes_a_second(
    late: tuple[World, TestJournal],
) -> None:
    world, journal = late
    watched, immune = Watched(), Watched("immune", immune=True)
    calls = [call("watched"), call("immune")]
    session = await world.spawn([say(calls=calls), "next"], tools=[watched.tool, immune.tool])
    await session.prompt("go")
    await trio.sleep(1)
    journal.commit = 1.0
    called = trio.current_time()
    await session.abort()
    assert watched.cancelled_at is not None
    assert watched.cancelled_at - called <= AT_ONCE
    assert immune.cancelled_at is None
    assert [detached.name for detached in session.status().lingering] == ["immune"]


async def test_what_runs_is_cancelled_at_once_when_the_supervisor_ends_while_a_commit_is_late() -> None:
    journal, watched = TestJournal(), Watched()
    async with trio.open_nursery() as nursery, open_supervisor(journal=journal) as supervisor:
        stop_at_the_end(supervisor)
        session = await supervisor.spawn(spec_of(ScriptedModel([say(calls=[call("watched")])]), tools=[watched.tool]))
        await session.prompt("go")
        await trio.sleep(1)
        journal.commit = 1.0
        nursery.start_soon(session.prompt, "queued")
        await trio.sleep(0.1)
        began = trio.current_time()
    assert watched.cancelled_at is not None
    assert watched.cancelled_at - began <= AT_ONCE


async def test_a_call_that_was_spared_by_an_abort_is_spared_by_the_next_one(world: World) -> None:
    watched = Watched()
    session = await world.spawn([say(calls=[call("watched")]), stall(after=1)], tools=[watched.tool])
    await session.prompt("go")
    await trio.sleep(1)
    await session.abort(kill_tools="none")
    await session.prompt("go on")
    await trio.sleep(1)
    await session.abort()
    await trio.sleep(60)
    assert watched.cancelled_at is None
    assert watched.ended_at is not None


@pytest.mark.parametrize("kill_tools", ["killable", "all", "none"])
async def test_what_an_abort_does_to_tools(world: World, kill_tools: Kill) -> None:
    watched, immune = Watched(), Watched("immune", immune=True)
    calls = [call("watched"), call("immune")]
    session = await world.spawn([say(calls=calls), "next"], tools=[watched.tool, immune.tool])
    await session.prompt("go")
    await trio.sleep(1)
    await session.abort(kill_tools=kill_tools)
    await trio.sleep(0.01)
    assert (watched.cancelled_at is None) is (kill_tools == "none")
    assert (immune.cancelled_at is None) is (kill_tools != "all")
    lingering = {"killable": ["immune"], "all": [], "none": ["watched", "immune"]}[kill_tools]
    assert [detached.name for detached in session.status().lingering] == lingering
    heard = world.heard(session)
    assert len(heard.of(ToolKilled)) == 2 - len(lingering)
    await trio.sleep(60)
    late = [event for event in heard.of(ToolExecutionEnd) if event.late]
    assert sorted(event.name for event in late) == sorted(lingering)
    assert session.status().lingering == ()


async def test_lingering_calls_die_at_once_with_all(late: tuple[World, TestJournal]) -> None:
    world, journal = late
    immune = Watched("immune", immune=True)
    session = await world.spawn([say(calls=[call("immune")]), "next"], tools=[immune.tool])
    await session.prompt("go")
    await trio.sleep(1)
    await session.abort()
    journal.commit = 1.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.switch_model, "demo")
        await trio.sleep(0.1)
        called = trio.current_time()
        await session.abort(kill_tools="all")
    assert immune.cancelled_at is not None
    assert immune.cancelled_at - called <= AT_ONCE


async def test_a_tool_whose_start_was_late_does_not_begin_behind_an_abort(late: tuple[World, TestJournal]) -> None:
    world, journal = late
    began: list[str] = []

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        began.append("!")
        await trio.sleep(1)
        return ok("done")

    session = await world.spawn([say(calls=[call("hasty")]), "next"], tools=[fake("hasty", body)])
    journal.commit = 1.0
    await session.prompt("go")
    await trio.sleep(0.5)  # the response has come, the record of it is being written
    await session.abort()
    await trio.sleep(1.1)
    assert began == []
    assert session.status().quarantined == ()


async def test_steering_cuts_the_stream_at_once_though_the_commit_takes_a_second(
    late: tuple[World, TestJournal],
) -> None:
    world, journal = late
    session = await world.spawn([say("word " * 100, delay=0.01), "next"])
    await session.prompt("go")
    await trio.sleep(0.205)
    journal.commit = 1.0
    await session.steer("no, the other", when="now")
    heard = world.heard(session)
    assert heard.at(MessageDelta)[-1] - heard.at(PromptReceived)[0] <= 210
    journal.commit = None
    await until(lambda: session.status().phase == "idle")
    await settle()
    assert heard.only(AgentResumed).trigger == "steering"
    assert heard.only(SteeringApplied).count == 1


async def test_steering_cancels_killable_tools_at_once_though_the_commit_takes_a_second(
    late: tuple[World, TestJournal],
) -> None:
    world, journal = late
    watched = Watched()
    session = await world.spawn([say(calls=[call("watched")]), "next"], tools=[watched.tool])
    await session.prompt("go")
    await trio.sleep(1)
    journal.commit = 1.0
    called = trio.current_time()
    await session.steer("no, the other")
    assert watched.cancelled_at is not None
    assert watched.cancelled_at - called <= AT_ONCE
    journal.commit = None
    await until(lambda: session.status().phase == "idle")
    assert len(world.heard(session).of(ToolSkippedForSteering)) == 1


async def test_the_next_request_follows_steering_at_once_though_a_tool_would_take_3_s(world: World) -> None:
    session = await world.spawn([say(calls=[call("slow")]), "next"], tools=[slow()])
    await session.prompt("go")
    await trio.sleep(1)
    called = session.inspect().turn
    assert called is not None
    await session.steer("no, the other")
    await settle()
    heard = world.heard(session)
    assert heard.at(RequestStart)[1] - heard.at(SteeringReceived)[0] <= 10


async def test_clearing_the_queue_drops_also_what_is_still_in_the_mailbox(late: tuple[World, TestJournal]) -> None:
    world, journal = late
    session = await world.spawn([stall(), "after"])
    await session.prompt("first")
    await session.prompt("queued")
    journal.commit = 1.0
    dropped: list[str] = []

    async def prompt(text: str) -> None:
        with pytest.raises(PromptWasDropped):
            await session.prompt(text)
        dropped.append(text)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.switch_model, "demo")
        await trio.sleep(0.1)
        nursery.start_soon(prompt, "in the mailbox")
        await trio.sleep(0.1)
        nursery.start_soon(lambda: session.abort(clear_queue=True))
        await trio.sleep(0.1)
        nursery.start_soon(session.prompt, "behind it")
    assert dropped == ["in the mailbox"]
    heard = world.heard(session)
    assert sorted(event.text for event in heard.of(PromptDropped)) == ["in the mailbox", "queued"]
    journal.commit = None
    await until(lambda: heard.of(AgentEnd))


# What is in the history is what was heard


async def texts_of(session: SessionHandle) -> list[str]:
    return [message.text for message in session.messages() if isinstance(message, AssistantMessage)]


CHUNKS = 5


@pytest.mark.parametrize("commit", [None, 0.03, 1.0])
@pytest.mark.parametrize("after", range(2 * CHUNKS + 3))
async def test_what_an_abort_keeps_is_what_subscribers_heard(after: int, commit: float | None) -> None:
    journal = TestJournal(commit=commit)
    async with open_world(journal) as world:
        session = await world.spawn([say("a b c d e", delay=0.02)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "go")
            await trio.sleep(2 * (commit or 0) + 0.01 * after)
            await session.abort()
        await settle()
        messages = [message for message in session.messages() if isinstance(message, AssistantMessage)]
        assert "".join(message.text for message in messages) == world.heard(session).said
        assert all(message.interrupted for message in messages if message.text != "a b c d e")


@pytest.mark.parametrize("commit", [None, 0.03, 1.0])
@pytest.mark.parametrize("after", range(2 * CHUNKS + 3))
async def test_what_steering_keeps_is_what_subscribers_heard(after: int, commit: float | None) -> None:
    journal = TestJournal(commit=commit)
    async with open_world(journal) as world:
        session = await world.spawn([say("a b c d e ", delay=0.02), "next ", "more "])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.prompt, "go")
            await trio.sleep(2 * (commit or 0) + 0.01 * after)
            await session.steer("other", when="now")
        await until(lambda: session.status().phase == "idle" and not session.status().turn_open)
        await settle()
        assert "".join(await texts_of(session)) == world.heard(session).said


@pytest.mark.parametrize("commit", [None, 0.03])
@pytest.mark.parametrize("after", range(CHUNKS + 1))
async def test_what_a_stall_leaves_is_what_subscribers_heard(after: int, commit: float | None) -> None:
    async with open_world(TestJournal(commit=commit)) as world:
        script: list[Element] = [stall(after=after, text="a b c d e", delay=0.02), "whole"]
        session = await world.spawn(script, stall_timeout=1.0)
        assert (await session.ask("go")).text == "whole"
        await settle()
        heard = world.heard(session)
        assert heard.only(Retry).dropped_text is (after > 0)
        assert (
            heard.said
            == "".join(["a", "b", "c", "d", "e"][:0])
            + "".join(f"{w} " for w in "abcde"[:after]).replace("e ", "e")
            + "whole"
        )
        assert await texts_of(session) == ["whole"]


@pytest.mark.parametrize("after", range(CHUNKS + 1))
async def test_what_a_stall_leaves_when_no_retry_is_left_is_what_subscribers_heard(world: World, after: int) -> None:
    session = await world.spawn([stall(after=after, text="a b c d e", delay=0.02)], stall_timeout=1.0, max_retries=0)
    with pytest.raises(TurnAborted):
        await session.ask("go")
    await settle()
    assert "".join(await texts_of(session)) == world.heard(session).said


async def test_chunks_that_come_while_a_record_is_written_are_heard_and_kept(late: tuple[World, TestJournal]) -> None:
    world, journal = late
    session = await world.spawn([say("a b c d e", delay=0.1), "next"])
    await session.prompt("go")
    journal.commit = 1.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.switch_model, "demo")  # chunks come, and the loop is busy writing
        await trio.sleep(0.35)
        await session.abort()
    assert world.heard(session).said == "a b c "
    assert await texts_of(session) == ["a b c "]
    assert session.status().usage.output_tokens > 0


async def test_chunks_that_come_before_the_loop_has_time_are_heard_in_the_end(late: tuple[World, TestJournal]) -> None:
    world, journal = late
    session = await world.spawn([say("a b c d e", thinking="hm", delay=0.1)])
    await session.prompt("go")
    journal.commit = 1.0
    await session.switch_model("demo")
    journal.commit = None
    await until(lambda: session.status().phase == "idle")
    await settle()
    assert world.heard(session).said == "a b c d e"


async def test_the_history_behind_an_abort_is_fit_for_a_provider(world: World) -> None:
    watched = Watched()
    session = await world.spawn([say("Let me see.", calls=[call("watched")] * 2), "Yes?"], tools=[watched.tool])
    await session.prompt("go")
    await trio.sleep(1)
    await session.abort()
    assert (await session.ask("go on")).text == "Yes?"
    kinds = [type(message) for message in session.messages()]
    assert kinds == [UserMessage, AssistantMessage, ToolMessage, ToolMessage, UserMessage, AssistantMessage]


async def test_an_abort_that_is_refused_by_nobody_has_one_record(world: World) -> None:
    session = await world.spawn([stall(after=1)])
    await session.prompt("go")
    await trio.sleep(1)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(session.abort)
    records = await world.journal.read(session.id)
    assert sum(isinstance(record.arrival.input, AbortSent) for record in records) == 1


async def test_a_call_that_runs_alone_does_so_also_when_it_outlives_its_turn(world: World) -> None:
    started: list[tuple[str, float]] = []

    async def deploy(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        started.append(("deploy", trio.current_time()))
        await trio.sleep(30)
        return ok("deployed")

    async def look(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        started.append(("look", trio.current_time()))
        return ok("seen")

    tools = [fake("deploy", deploy, immune=True, parallel=False), fake("look", look)]
    script: list[Element] = [say(calls=[call("deploy")]), say(calls=[call("look")]), "done"]
    session = await world.spawn(script, tools=tools)
    await session.prompt("deploy it")
    await trio.sleep(1)
    await session.abort()
    assert [detached.name for detached in session.status().lingering] == ["deploy"]
    assert (await session.ask("look at it")).text == "done"
    (_, deployed), (_, looked) = started
    assert looked - deployed >= 30


# For one turn


async def test_an_abort_that_is_meant_for_a_turn_ends_it(world: World) -> None:
    session = await world.spawn([say("word " * 100, delay=0.01), "next"])
    accepted = await session.prompt("go")
    await trio.sleep(0.2)
    await session.abort("stop it", turn=accepted.ref)
    await until(lambda: world.heard(session).of(AgentAbort))
    assert world.heard(session).only(AgentAbort) == AgentAbort(accepted.ref, "user", "stop it")


@pytest.mark.parametrize("turn", ["the one before", "the next one", "nobody's"])
async def test_an_abort_that_is_meant_for_another_turn_does_nothing(world: World, turn: str) -> None:
    session = await world.spawn(["one", say("word " * 100, delay=0.01), "three"])
    refs = {"the one before": (await session.prompt("first")).ref}
    await until(lambda: world.heard(session).of(AgentEnd))
    await session.prompt("second")
    refs["the next one"] = (await session.prompt("third")).ref
    await trio.sleep(0.2)
    await session.abort(kill_tools="all", clear_queue=True, turn=refs.get(turn, "p0"))
    await until(lambda: len(world.heard(session).of(AgentEnd)) == 3)
    heard = world.heard(session)
    assert heard.of(AgentAbort) == []
    assert heard.of(PromptDropped) == []
    assert [message.text for message in session.messages()][3] == "word " * 100


@pytest.mark.parametrize("names_turn", [True, False])
async def test_a_turn_that_begins_before_an_abort_is_handled_is_hit_only_if_the_abort_names_none(
    late: tuple[World, TestJournal], *, names_turn: bool
) -> None:
    """The first turn ends while its abort is on its way, and the prompt of another client waits."""
    world, journal = late
    session = await world.spawn(["one", say("word " * 100, delay=0.01)])
    journal.commit = 1.0
    first = await session.prompt("first")
    second = await session.prompt("second")
    journal.commit = None
    await until(lambda: world.heard(session).of(RequestStart))
    journal.commit = 1.0
    await trio.sleep(0.5)  # the end of the first turn, and the start of the second, are being written
    await session.abort(turn=first.ref if names_turn else None)
    journal.commit = None
    await until(lambda: len(world.heard(session).of(AgentEnd)) + len(world.heard(session).of(AgentAbort)) == 2)
    assert [event.ref for event in world.heard(session).of(AgentAbort)] == ([] if names_turn else [second.ref])


async def test_aborts_for_several_turns_are_not_joined_to_one(late: tuple[World, TestJournal]) -> None:
    """What one wants for its turn must not happen to that of another."""
    world, journal = late
    watched = Watched(immune=True)
    session = await world.spawn([say(calls=[call("watched")]), "on"], tools=[watched.tool])
    accepted = await session.prompt("go")
    await trio.sleep(0.1)
    journal.commit = 1.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(session.label, title="busy"))
        await settle()
        nursery.start_soon(partial(session.abort, kill_tools="all", turn="p0"))
        nursery.start_soon(partial(session.abort, kill_tools="none", turn=accepted.ref))
    await until(lambda: world.heard(session).of(AgentAbort))
    assert world.heard(session).only(AgentAbort).ref == accepted.ref
    assert watched.cancelled_at is None

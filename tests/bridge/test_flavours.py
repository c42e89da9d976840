"""One suite for handles on Trio, on asyncio and with calls that block: all do the same, and raise the same."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

from agentrail import Context, Continue, HoldTool, Plugin, SessionSpec, SetSection, Subscription
from agentrail.errors import (
    AlreadyLeft,
    BadChoice,
    BadOptions,
    CommandConflict,
    JournalFull,
    JournalUnavailable,
    NotEntered,
    PromptWasDropped,
    RefusedError,
    SessionNotAlive,
    SessionNotStored,
    TurnAborted,
    UnknownApproval,
    UnknownChild,
    UnknownPrompt,
    UnknownTask,
    UnknownTool,
)
from agentrail.events import AgentEnd, ApprovalRequired, AskUser, Event, MessageDelta, ToolExecutionEnd
from agentrail.journals import Record, SqliteJournal
from agentrail.plugins import BeforeRequest, BeforeTool
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.tools import AskPerson, Effect
from tests.bridge.flavours import Open, Scenario, in_each_flavour
from tests.coded import coded
from tests.runtime.journals import TestJournal

Play: TypeAlias = Callable[[Scenario], None]


def lookup() -> str:
    """Look it up."""
    return "looked up"


def question() -> Effect:
    """Ask a person."""
    return Effect(AskPerson("which one?", ("a", "b")))


class Hold(Plugin):
    """Holds each call."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> HoldTool | Continue:
        return HoldTool("may it?")


class Says(Plugin):
    """Puts a section into each request."""

    text: str = "one"

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> SetSection:
        return SetSection("says", self.text)


def calling(name: str) -> ScriptedModel:
    return ScriptedModel([say(calls=[call(name)]), "finished"], repeat_last=True)


async def until(events: Subscription, kind: type[Event]) -> Event:
    """Read up to an event of this kind, and return it."""
    while True:
        event = (await anext(events)).event
        if isinstance(event, kind):
            return event


@in_each_flavour
def test_held_calls_are_decided(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            spec = SessionSpec(model=calling("lookup"), tools=[lookup], plugins=[Hold()])
            session = await supervisor.spawn(spec)
            other = await supervisor.spawn(spec.but(model=calling("lookup")))
            async with session.subscribe() as events:
                (held,) = (await session.ask("go")).held
                assert [calls[0].id for calls in supervisor.approvals().values()] == [held.id]
                with pytest.raises(UnknownApproval):
                    await session.approve("nothing")
                await session.by("a person").approve(held)
                ended = await until(events, ToolExecutionEnd)
                assert isinstance(ended, ToolExecutionEnd)
                assert ended.text == "looked up"
                assert (await session.reply()).stop_reason == "end"
                await until(events, AgentEnd)
            async with other.subscribe() as events:
                (held,) = (await other.ask("go")).held
                await other.reject(held, "no", auto_resume=True)
                await until(events, AgentEnd)

    play(scenario)


@in_each_flavour
def test_questions_are_answered(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=calling("question"), tools=[question]))
            async with session.subscribe(types=[AskUser, AgentEnd]) as events:
                accepted = await session.prompt("go", command="go")
                await until(events, AskUser)
                (held,) = session.status().held
                await session.respond(held, "a")
                await until(events, AgentEnd)
                assert accepted.ref
                assert (await session.ask("go", command="go")).text == "finished"

    play(scenario)


@in_each_flavour
def test_the_end_of_a_turn_is_waited_for_through_a_hold(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=calling("lookup"), tools=[lookup], plugins=[Hold()]))
            async with session.subscribe(types=[ApprovalRequired]) as events:
                await session.prompt("go", command="go")
                await until(events, ApprovalRequired)
                (held,) = session.status().held
                await session.approve(held.id)
                assert (await session.ask("go", until="end", command="go")).text == "finished"

    play(scenario)


@in_each_flavour
def test_prompts_are_queued_withdrawn_and_dropped_and_turns_aborted(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall()], repeat_last=True)))
            await session.prompt("one", command="c1")
            second = await session.prompt("two", command="c2")
            third = await session.prompt("three", command="c3")
            assert await session.prompt("two", command="c2") == second
            with pytest.raises(CommandConflict):
                await session.prompt("something else", command="c2")
            assert [prompt.ref for prompt in session.queued()] == [second.ref, third.ref]
            await session.withdraw(second.ref)
            with pytest.raises(UnknownPrompt):
                await session.withdraw(second.ref)
            await session.steer("sooner")
            with pytest.raises(BadChoice):
                await session.steer("sooner", when="then")  # type: ignore[arg-type]
            await session.abort("enough", clear_queue=True)
            with pytest.raises(TurnAborted, match="enough"):
                await session.ask("one", command="c1")
            with pytest.raises(PromptWasDropped):
                await session.ask("three", command="c3")
            async with session.monitor() as down:
                await session.stop("over")
                assert (await down.wait()).reason == "over"
            with pytest.raises(SessionNotAlive):
                await session.prompt("more")

    play(scenario)


@in_each_flavour
def test_four_eyes_are_kept(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=calling("lookup"), tools=[lookup], plugins=[Hold()]))
            (held,) = (await session.by("ann").ask("go")).held
            with pytest.raises(RefusedError, check=coded("own-decision")):
                await session.by("ann", four_eyes=True).approve(held)
            await session.by("ben", four_eyes=True).approve(held)

    play(scenario)


@in_each_flavour
def test_what_was_not_entered_or_was_left_is_not_read(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["hello"], repeat_last=True)))
            for reader in (session.subscribe(), session.stream("hi"), session.trace()):
                with pytest.raises(NotEntered):
                    await first(reader)
                async with reader:
                    await session.ask("go")
                    await first(reader)
                with pytest.raises(AlreadyLeft):
                    await first(reader)
                assert "subscription" not in repr(session)

    play(scenario)


async def first(reader: AsyncIterable[object]) -> None:
    """Take one item."""
    async for _ in reader:
        return


@in_each_flavour
def test_a_subscriber_knows_its_position_and_what_it_has_missed(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            chunks = ScriptedModel([say(chunks=["x"] * 2000)], repeat_last=True)
            session = await supervisor.spawn(SessionSpec(model=chunks))
            async with session.subscribe(types=[MessageDelta], capacity=1) as events:
                await session.ask("go")
                assert (events.merged > 0, events.dropped) == (True, 0)
                assert (await anext(events)).cursor == events.position
            async with session.subscribe(types=[MessageDelta], capacity=1, policy="drop") as events:
                await session.ask("go")
                assert (events.merged, events.dropped > 0) == (0, True)

    play(scenario)


@in_each_flavour
def test_who_watches_is_told_that_the_journal_cannot_be_written_until_they_do_not_watch(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        journal, problems = TestJournal(), list[JournalUnavailable]()

        def fail_once(_: Record) -> Exception:
            journal.failing = None
            return JournalFull("no space")

        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["hello"])))
            async with session.monitor() as down:
                end = down.when_stuck(problems.append)
                for title in ("one", "another"):
                    journal.failing = fail_once
                    await session.label(title=title)
                    end()
                    assert [type(problem) for problem in problems] == [JournalFull]

    play(scenario)


@in_each_flavour
def test_tools_plugins_models_and_labels_change(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=calling("lookup")), title="a talk")
            await session.attach_tools(lookup)
            await session.replace_tools(lookup)
            await session.detach_tools("lookup")
            with pytest.raises(UnknownTool):
                await session.detach_tools("lookup")
            await session.attach_plugin(Says())
            with pytest.raises(BadOptions):
                await session.update_plugin(Says, loudness=3)
            await session.detach_plugin(Says)
            await session.switch_model(ScriptedModel(["switched"], name="other"))
            assert (await session.ask("hi")).text == "switched"
            await session.label(["red"], title="another")
            assert session.inspect().labels == ("red",)
            await session.suspend()
            await session.resume()
            await session.compact()
            with pytest.raises(UnknownTask):
                await session.task_result("nobody")
            with pytest.raises(UnknownTask):
                await session.wait_tasks("nobody")
            with pytest.raises(UnknownTask):
                await session.message_task("nobody", "hi")
            with pytest.raises(UnknownTask):
                await session.cancel_task("nobody")

    play(scenario)


@in_each_flavour
def test_sessions_are_stored_forked_resumed_redacted_and_deleted(play: Play, tmp_path: Path) -> None:
    spec = SessionSpec(name="talk", model=ScriptedModel(["hello"], repeat_last=True))

    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor(
            journal=SqliteJournal(tmp_path / "journal.db"), specs={"talk": lambda: spec}
        ) as first:
            session = await first.spawn(spec, "a", tenant="t", owner="o")
            await session.ask("hi", command="c1")
            fork = await session.fork(id="b")
            assert [message.text for message in fork.messages()] == ["hi", "hello"]
            assert (await first.fork("a", id="c")).id == "c"
            assert await first.open("a", spec) is not None
        async with open_supervisor(
            journal=SqliteJournal(tmp_path / "journal.db"), specs={"talk": lambda: spec}
        ) as then:
            assert [stored.session_id for stored in await then.stored()] == ["a", "b", "c"]
            assert await then.answered("a", "c1") is not None
            assert (await then.state("a")).turn_count == 1
            with pytest.raises(SessionNotStored):
                await then.resume("d", spec)
            assert await then.redact("b", by="me") > 0
            await then.delete("b")
            resumed = await then.resume("a")
            assert [message.text for message in resumed.messages()] == ["hi", "hello"]
            await then.drain(1.0)

    play(scenario)


async def serve(*, task_status: trio.TaskStatus[None]) -> None:
    task_status.started()
    await trio.sleep_forever()


@in_each_flavour
def test_services_and_supervisors_are_children(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            await supervisor.start_service(serve, "service")
            below = await supervisor.start_supervisor("below", strategy="one_for_all")
            session = await below.spawn(SessionSpec(model=calling("lookup")), "a")
            assert [child.name for child in supervisor.tree().children] == ["service", "below"]
            assert [other.id for other in supervisor.sessions()] == [session.id]
            assert supervisor.session("a").id == "a"
            await supervisor.stop_child("service")
            with pytest.raises(UnknownChild):
                await supervisor.stop_child("service")
            assert supervisor.crashes() == ()
            assert supervisor.figures() is not None

    play(scenario)

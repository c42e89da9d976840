"""With a command id, a call can be repeated: the same id returns the first answer and has no second effect."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from attrs import frozen

from agentrail import Accepted, Context, Continue, HoldTool, Plugin, SessionHandle
from agentrail.errors import AgentrailError, CommandConflict, PromptWasDropped, QueueFull, TurnAborted, UnknownApproval
from agentrail.events import AgentAbort, PluginAttached, PluginDetached, PluginOptsUpdated, PromptReceived, ToolsUpdated
from agentrail.journals import Record
from agentrail.models import UserMessage
from agentrail.plugins import BeforeTool
from agentrail.runtime.handle import ask_at_once
from agentrail.testing import ScriptedModel, call, say, stall
from tests.runtime.journals import BROKEN, TestJournal
from tests.runtime.tools import quick, slow
from tests.runtime.world import World, open_world, settle, spec_of, until

Call = Callable[[SessionHandle, str], Awaitable[object]]


@frozen
class Limits(Plugin):
    most: int = 1


class Holder(Plugin):
    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | HoldTool[None]:
        return HoldTool("may it?")


async def accepted_at_once(session: SessionHandle, command: str) -> Accepted:
    return (await ask_at_once(session, "hi", command=command)).accepted


IDLE_CALLS: dict[str, Call] = {
    "prompt": lambda session, command: session.prompt("hi", command=command),
    "ask_at_once": accepted_at_once,
    "ask": lambda session, command: session.ask("hi", command=command),
    "steer": lambda session, command: session.steer("hi", command=command),
    "abort": lambda session, command: session.abort("why", command=command),
    "compact": lambda session, command: session.compact(command=command),
    "switch_model": lambda session, command: session.switch_model("demo", command=command),
    "attach_tools": lambda session, command: session.attach_tools(quick("new"), command=command),
    "detach_tools": lambda session, command: session.detach_tools("quick", command=command),
    "replace_tools": lambda session, command: session.replace_tools(quick(), command=command),
    "attach_plugin": lambda session, command: session.attach_plugin(Holder(), command=command),
    "update_plugin": lambda session, command: session.update_plugin(Limits, most=2, command=command),
    "detach_plugin": lambda session, command: session.detach_plugin("Limits", command=command),
}


@pytest.mark.parametrize("name", IDLE_CALLS)
async def test_the_same_id_again_returns_the_first_answer_and_does_nothing(world: World, name: str) -> None:
    session = await world.spawn(["One.", "Two."], tools=[quick()], plugins=[Limits()])
    first = await IDLE_CALLS[name](session, "id")
    await until(lambda: session.status().phase == "idle")
    await settle()
    old, heard = session.inspect(), len(world.heard(session).envelopes)
    with trio.fail_after(5):
        again = await IDLE_CALLS[name](session, "id")
    await settle()
    assert again == first
    assert session.inspect() is old
    assert len(world.heard(session).envelopes) == heard


@pytest.mark.parametrize("name", IDLE_CALLS)
async def test_the_same_id_at_the_same_time_is_done_once(world: World, name: str) -> None:
    session = await world.spawn(["One.", "Two."], tools=[quick()], plugins=[Limits()])
    answers: list[object] = []

    async def once() -> None:
        answers.append(await IDLE_CALLS[name](session, "id"))

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(once)
    await until(lambda: session.status().phase == "idle")
    await settle()
    assert answers == [answers[0]] * 3
    heard = world.heard(session)
    kinds = (PromptReceived, AgentAbort, ToolsUpdated, PluginAttached, PluginDetached, PluginOptsUpdated)
    assert all(len(heard.of(kind)) <= 1 for kind in kinds)


@pytest.mark.parametrize("name", IDLE_CALLS)
async def test_the_same_id_with_another_command_is_a_conflict(world: World, name: str) -> None:
    session = await world.spawn(["One."], tools=[quick()], plugins=[Limits()])
    await session.switch_model("demo", temperature=0, command="id")
    with pytest.raises(CommandConflict, match="`id`"):
        await IDLE_CALLS[name](session, "id")


@pytest.mark.long
async def test_the_answer_is_found_in_the_journal_when_the_session_has_forgotten_it(world: World) -> None:
    session = await world.spawn(ScriptedModel(["ok"], repeat_last=True))
    first = await session.prompt("hi", command="first")
    await until(lambda: session.status().phase == "idle")
    for number in range(1001):
        await session.switch_model("demo", max_tokens=number + 1, command=str(number))
    assert await session.prompt("hi", command="first") == first
    with pytest.raises(CommandConflict):
        await session.prompt("other", command="first")


async def test_an_ask_that_is_sent_again_waits_for_the_turn_of_the_first(world: World) -> None:
    session = await world.spawn([say("a b c", delay=1.0), "Two."])
    with trio.move_on_after(1.5):
        await session.ask("hi", command="id")
    reply = await session.ask("hi", command="id")
    assert reply.text == "a b c"
    assert await session.ask("hi", command="id") == reply
    assert len(world.heard(session).of(PromptReceived)) == 1


async def test_an_ask_that_is_sent_again_raises_what_the_first_raised(world: World) -> None:
    session = await world.spawn([stall()])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(abort_soon, session)
        with pytest.raises(TurnAborted) as first:
            await session.ask("hi", command="id")
    with pytest.raises(TurnAborted) as second:
        await session.ask("hi", command="id")
    assert first.value == second.value


async def test_nobody_is_remembered_who_waits_for_a_turn_no_more(world: World) -> None:
    session = await world.spawn(["hello", stall()])
    waiters = session._session.waiters  # noqa: SLF001 - what is kept there is the point
    for _ in range(3):
        await session.ask("hi", command="id")
        assert not waiters
    with trio.move_on_after(1):
        await session.ask("for ever")
    assert not waiters


async def abort_soon(session: SessionHandle) -> None:
    await trio.sleep(1)
    await session.abort()


async def test_an_ask_that_is_sent_again_while_the_session_rests_is_told_so(world: World) -> None:
    session = await world.spawn([say(calls=[call("quick")])], tools=[quick()], plugins=[Holder()])
    first = await session.ask("hi", command="id")
    with trio.fail_after(5):
        assert await session.ask("hi", command="id") == first


@pytest.mark.long
async def test_an_abort_that_is_sent_again_does_not_touch_the_next_turn(world: World) -> None:
    session = await world.spawn([stall(after=1), say("a b c d", delay=1.0)])
    await session.prompt("first")
    await until(lambda: session.status().phase == "streaming")
    await session.abort(command="id")
    await session.prompt("second")
    await until(lambda: session.status().phase == "streaming")
    await session.abort(command="id")
    await until(lambda: session.status().phase == "idle")
    assert session.messages()[-1] == session.inspect().history[-1]
    assert world.heard(session).said.endswith("a b c d")


async def test_an_abort_with_an_id_that_joins_one_without_is_remembered() -> None:
    async with open_world(TestJournal(commit=1.0)) as world:
        session = await world.spawn([stall(after=1), say("a b c", delay=1.0)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.switch_model, "demo")
            await trio.sleep(0.1)
            nursery.start_soon(session.abort)
            await trio.sleep(0.1)
            nursery.start_soon(lambda: session.abort(command="id"))
        old_count = len(world.heard(session).of(AgentAbort))
        await session.abort(command="id")
        await settle()
        assert len(world.heard(session).of(AgentAbort)) == old_count


async def test_a_decision_that_is_sent_again_is_answered_as_before(world: World) -> None:
    session = await world.spawn([say(calls=[call("slow")]), "Done."], tools=[slow()], plugins=[Holder()])
    (held,) = (await session.ask("hi")).held
    await session.approve(held.id, command="id")
    await session.approve(held.id, command="id")
    with pytest.raises(UnknownApproval):
        await session.approve(held.id, command="another")
    with pytest.raises(CommandConflict):
        await session.reject(held.id, command="id")


async def test_a_refusal_is_an_answer_too(world: World) -> None:
    session = await world.spawn([stall()], max_prompt_queue=1)
    await session.prompt("first")
    await session.prompt("second")
    with pytest.raises(QueueFull):
        await session.prompt("third", command="id")
    await session.abort(clear_queue=True)
    with pytest.raises(QueueFull):
        await session.prompt("third", command="id")


@pytest.mark.long
async def test_of_a_large_command_only_a_digest_is_kept_at_hand(world: World) -> None:
    session = await world.spawn(ScriptedModel(["ok"], repeat_last=True))
    text = "x" * 1_000_000
    first = await session.prompt(text, command="large")
    assert await session.prompt(text, command="large") == first
    with pytest.raises(CommandConflict):
        await session.prompt(text + "x", command="large")
    remaining = session._session._answers._kept  # noqa: SLF001 - what is kept there is the point
    assert remaining is not None
    ((digest, answer),) = remaining.values()
    assert (len(digest), answer) == (16, first)


# What an abort clears while it is still in the mailbox


@asynccontextmanager
async def held_up(session: SessionHandle, journal: TestJournal) -> AsyncIterator[trio.Nursery]:
    """Make the actor's next record take a second, so that what is sent meanwhile waits in its mailbox."""
    async with trio.open_nursery() as nursery:
        journal.commit = 1.0
        nursery.start_soon(lambda: session.attach_tools(quick("new")))
        await trio.sleep(0.1)
        yield nursery
        await trio.sleep(0.1)
        journal.commit = None


async def outcome(sending: Awaitable[object]) -> object:
    """Return the answer, or the class and the fields of the refusal."""
    try:
        return await sending
    except AgentrailError as error:
        return (type(error), *error.args)


def ran(session: SessionHandle) -> list[str]:
    """Return the texts of the user's messages in the conversation."""
    return [message.text for message in session.messages() if isinstance(message, UserMessage)]


@pytest.fixture
def kept_journal() -> TestJournal:
    return TestJournal()


async def test_a_prompt_that_was_dropped_is_answered_so_whenever_it_is_sent_again(kept_journal: TestJournal) -> None:
    got: list[object] = []
    async with open_world(kept_journal, parks=True) as world:
        session = await world.spawn([stall(), "after"], "s")
        await session.prompt("go")

        async def send() -> None:
            got.append(await outcome(session.prompt("late", command="c")))

        async with held_up(session, kept_journal) as nursery:
            nursery.start_soon(send)
            nursery.start_soon(send)
            await trio.sleep(0.1)
            nursery.start_soon(lambda: session.abort(clear_queue=True))
        await send()
        session._session._answers.forget()  # noqa: SLF001 - the journal has to know
        await send()
        with pytest.raises(CommandConflict):
            await session.prompt("other", command="c")
        assert ran(session) == ["go"]
    async with open_world(kept_journal) as world:
        session = await world.supervisor.resume("s", spec_of(ScriptedModel(["after"])))
        got.append(await outcome(session.prompt("late", command="c")))
        assert (await session.ask("now")).text == "after"
        assert ran(session) == ["go", "now"]
    assert len(got) == 5
    assert set(got) == {got[0]}
    assert isinstance(got[0], tuple)
    assert (got[0][0], got[0][2]) == (PromptWasDropped, "the queue was cleared by an abort")


async def test_a_prompt_that_was_accepted_is_not_dropped_when_it_is_sent_again(kept_journal: TestJournal) -> None:
    async with open_world(kept_journal) as world:
        session = await world.spawn(["fine", stall()], "s")
        first = await session.prompt("first", command="c")
        await until(lambda: session.status().phase == "idle")
        await session.prompt("go")
        got: list[object] = []

        async def send() -> None:
            got.append(await outcome(session.prompt("first", command="c")))

        async with held_up(session, kept_journal) as nursery:
            nursery.start_soon(send)
            await trio.sleep(0.1)
            nursery.start_soon(lambda: session.abort(clear_queue=True))
        assert got == [first]
        assert ran(session) == ["first", "go"]


@pytest.mark.parametrize("written", [False, True])
async def test_a_crash_between_a_drop_and_its_abort_loses_neither(kept_journal: TestJournal, written: bool) -> None:
    """The actor crashes at the record of the drop, before or after it is written; then at the record of the abort."""
    async with open_world(kept_journal) as world:
        session = await world.spawn([stall(), "after"], "s")
        await session.prompt("go")
        got: list[object] = []
        failing = {"PromptSent": 1, "AbortSent": 1}

        def fails(record: Record) -> Exception | None:
            kind = type(record.arrival.input).__name__
            if not failing.get(kind):
                return None
            failing[kind] -= 1
            return BROKEN

        async def send() -> None:
            got.append(await outcome(session.prompt("late", command="c")))

        async with held_up(session, kept_journal) as nursery:
            nursery.start_soon(send)
            await trio.sleep(0.1)
            nursery.start_soon(lambda: session.abort("enough", clear_queue=True))
            await trio.sleep(0.1)
            if written:
                kept_journal.fails_after = fails
            else:
                kept_journal.failing = fails
        assert failing == {"PromptSent": 0, "AbortSent": 0}
        kept_journal.failing = kept_journal.fails_after = None
        await send()
        assert [got[0]] * 2 == got
        assert isinstance(got[0], tuple)
        assert got[0][0] is PromptWasDropped
        names = world.heard(session).names
        assert (names.count("PromptDropped"), names.count("AgentAbort")) == (1, 1)
        records = await kept_journal.read("s")
        assert [record.command for record in records].count("c") == 1
        assert ran(session) == ["go"]


async def test_a_refusal_that_changed_nothing_is_the_answer_also_when_it_is_forgotten(world: World) -> None:
    session = await world.spawn([stall()], max_prompt_queue=1)
    await session.prompt("first")
    await session.prompt("second")
    first = await outcome(session.prompt("third", command="id"))
    assert first == (QueueFull, 1)
    await session.abort(clear_queue=True)
    session._session._answers.forget()  # noqa: SLF001 - the journal has to know
    assert await outcome(session.prompt("third", command="id")) == first


@pytest.mark.long
async def test_an_answer_is_known_after_a_thousand_others(world: World) -> None:
    session = await world.spawn(ScriptedModel(["fine"], repeat_last=True))
    first = await session.prompt("hi", command="first")
    for number in range(1100):
        await session.compact(command=f"c{number}")
    assert not session._session._answers.has("first")  # noqa: SLF001 - a thousand are kept at hand
    assert await session.prompt("hi", command="first") == first
    assert ran(session) == ["hi"]

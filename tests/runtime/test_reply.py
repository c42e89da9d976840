"""`session.reply()` waits for a turn that is open, whoever began it, and then says of it what `ask` does."""

import pytest
import trio

from agentrail import Context, Continue, HoldTool, Plugin, Reply, SessionHandle, tool
from agentrail.errors import BadChoice, PromptWasDropped, SessionNotAlive, TurnAborted, UsageError, WrongType
from agentrail.events import SessionHibernated
from agentrail.plugins import BeforeTool
from agentrail.testing import call, say
from tests.coded import coded
from tests.kit import Element
from tests.runtime.families import agent, task
from tests.runtime.tools import quick, slow
from tests.runtime.world import World, settle


class Holder(Plugin):
    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | HoldTool[None]:
        return Continue() if hook.approved else HoldTool("may it?", timeout=None)


HOLDS: list[Element] = [say("I want to.", calls=[call("quick")]), "Done."]


async def resting(world: World, script: list[Element] = HOLDS, **spec: object) -> tuple[SessionHandle, Reply]:
    """Return a session whose turn waits for a person, and the reply that says so."""
    session = await world.spawn(script, tools=[quick()], plugins=[Holder()], **spec)  # type: ignore[arg-type]
    return session, await session.ask("hi")


async def replies(session: SessionHandle, several: list[Reply | Exception], ref: str | None = None) -> None:
    """Add what `reply` returns or raises to *several*."""
    try:
        several.append(await session.reply(ref))
    except Exception as error:  # noqa: BLE001 - it is looked at by the test
        several.append(error)


async def test_after_an_approval_it_is_the_end_of_the_turn(world: World) -> None:
    session, rest = await resting(world)
    await session.approve(rest.held[0])
    reply = await session.reply()
    assert (reply.ref, reply.stop_reason, reply.text, reply.held) == (rest.ref, "end", "Done.", ())
    assert await session.reply() == reply  # the turn is over: it is that of the last one
    assert await session.reply(rest.ref, until="end") == reply


async def test_a_turn_that_waits_for_a_person_is_returned_until_the_end_is_asked_for(world: World) -> None:
    calls = [call("quick", {"a": 1}), call("quick", {"a": 2})]
    session, rest = await resting(world, [say(calls=calls), "Done."])
    assert await session.reply() == rest
    ends: list[Reply] = []

    async def end() -> None:
        ends.append(await session.reply(until="end"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        await session.approve(rest.held[0])
        second = await session.reply()
        assert [held_call.args["a"] for held_call in second.held] == [2]
        await session.approve(second.held[0])
    assert [(reply.text, reply.held) for reply in ends] == [("Done.", ())]


async def test_without_a_turn_it_says_so_and_with_another_ref_too(world: World) -> None:
    session = await world.spawn(["Hello."])
    with pytest.raises(UsageError, match="has had no turn yet", check=coded("no-turn")):
        await session.reply()
    await session.ask("hi")
    with pytest.raises(UsageError, check=coded("unknown-turn")):
        await session.reply("p99")
    with pytest.raises(WrongType, match="ref"):
        await session.reply(5)  # type: ignore[arg-type]  # that is tried
    with pytest.raises(BadChoice, match="use one of `rest`, `end`"):
        await session.reply(until="ends")  # type: ignore[arg-type]  # that is tried


async def test_the_turn_that_is_meant_is_named_as_another_may_have_begun(world: World) -> None:
    works = say(calls=[call("slow")])
    session = await world.spawn([works, "One.", works, "Two."], tools=[slow(seconds=5.0)])
    first = await session.prompt("one")
    second = await session.prompt("two")
    assert (await session.reply()).text == "One."
    await settle()
    assert (await session.reply(first.ref)).text == "One."
    assert (await session.reply(second.ref)).text == (await session.reply()).text == "Two."
    assert (await session.reply(first.ref)).text == "One."


async def test_several_wait_and_one_that_is_cancelled_aborts_nothing(world: World) -> None:
    session = await world.spawn([say("Late.", calls=[call("slow")]), "Done."], tools=[slow(seconds=5.0)])
    await session.prompt("hi")
    several: list[Reply | Exception] = []
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(replies, session, several)
        with trio.move_on_after(1) as scope:
            await session.reply()
        assert scope.cancelled_caught
        assert session.status().turn_open
    assert [reply.text for reply in several if isinstance(reply, Reply)] == ["Done."] * 3
    assert not session._session.waiters  # noqa: SLF001 - nobody is left there


@pytest.mark.parametrize("end", ["abort", "stop"])
async def test_who_waits_hears_that_the_turn_was_aborted(world: World, end: str) -> None:
    session, _ = await resting(world)
    several: list[Reply | Exception] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replies, session, several, None)
        await settle()
        assert [type(reply) for reply in several] == [Reply]  # it rests
        await (session.abort("enough") if end == "abort" else session.stop("enough"))
    with pytest.raises(TurnAborted, match="enough"):
        await session.reply()  # the last turn was this one, also of a session that is over
    if end == "stop":
        with pytest.raises(SessionNotAlive):
            await session.prompt("more")


async def test_a_prompt_that_was_withdrawn_has_no_turn(world: World) -> None:
    session, _ = await resting(world, on_prompt_while_held="queue")
    queued = await session.prompt("later")
    several: list[Reply | Exception] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replies, session, several, queued.ref)
        await settle()
        assert several == []
        await session.withdraw(queued.ref)
    assert [type(error) for error in several] == [PromptWasDropped]


async def test_a_session_that_sleeps_tells_what_its_turn_waits_for(world: World) -> None:
    session, rest = await resting(world, hibernate_after=10)
    async with session.subscribe(types=[SessionHibernated]) as events:
        await anext(events)
    assert await session.reply() == rest
    await session.approve(rest.held[0])
    assert (await session.reply()).text == "Done."
    async with session.subscribe(types=[SessionHibernated]) as events:
        await anext(events)
    assert (await session.reply()).text == "Done."
    await session.resume()


async def test_after_a_decision_about_a_call_of_a_sub_agent_nothing_is_said_to_be_held(world: World) -> None:
    finder = agent([say(calls=[call("slow")]), "found"], tools=[slow(seconds=5.0)], plugins=[Holder()])
    session = await world.spawn([task(), "fine"], "p", agents={"finder": finder})
    rest = await session.ask("go")
    await session.approve(rest.held[0])
    reply = await session.reply()
    assert (reply.text, reply.held) == ("fine", ())


async def test_a_tool_does_not_wait_for_the_turn_that_waits_for_it(world: World) -> None:
    sessions: list[SessionHandle] = []

    async def waits() -> str:
        """Wait for the turn."""
        return (await sessions[0].reply()).text

    session = await world.spawn([say(calls=[call("waits")]), "Done."], tools=[tool(waits)])
    sessions.append(session)
    await session.ask("hi")
    assert "whose turn waits for it" in session.messages()[-2].text


async def test_a_fork_knows_its_own_turns_alone(world: World) -> None:
    session = await world.spawn(["One.", "Two."])
    first = await session.ask("one")
    fork = await session.fork()
    with pytest.raises(UsageError, check=coded("no-turn")):
        await fork.reply()
    with pytest.raises(UsageError, check=coded("unknown-turn")):
        await fork.reply(first.ref)

"""`ask` returns, or raises, for every way in which a turn can end."""

from typing import Final

import attrs
import pytest
import trio

from agentrail import Abort, Accepted, Context, Continue, HoldTool, Plugin, Reply, SessionHandle
from agentrail.errors import (
    BadChoice,
    PromptWasDropped,
    PromptWasRejected,
    SessionCrashed,
    SessionNotAlive,
    TurnAborted,
)
from agentrail.events import SessionHibernated
from agentrail.models import StopReason
from agentrail.plugins import BeforePrompt, BeforeTool
from agentrail.runtime.handle import ask_at_once
from agentrail.testing import ScriptedModel, call, permanent, say, stall
from agentrail.tools import AskPerson, Effect
from tests.kit import Element, Phase
from tests.runtime.journals import BROKEN, BROKEN_CAUSE, TestJournal
from tests.runtime.tools import quick, slow, wanting
from tests.runtime.world import World, open_world, settle, until


class Holder(Plugin):
    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | HoldTool[None]:
        return HoldTool("may it?", timeout=None)


class Refuser(Plugin):
    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None] | Abort[None]:
        return Abort("not today") if "bad" in hook.text else Continue()


@attrs.frozen
class Even:
    """A number that must be even."""

    number: int

    def __attrs_post_init__(self) -> None:
        if self.number % 2:
            problem = "it is odd"
            raise ValueError(problem)


async def test_a_turn_that_ends_by_itself_is_returned(world: World) -> None:
    session = await world.spawn(["Hello you."])
    reply = await session.ask("hi")
    assert (reply.stop_reason, reply.text, reply.held) == ("end", "Hello you.", ())
    assert [type(message).__name__ for message in reply.messages] == ["UserMessage", "AssistantMessage"]


@pytest.mark.parametrize(("stop", "reason"), [(StopReason.LENGTH, "length"), (StopReason.REFUSED, "refused")])
async def test_so_is_one_that_was_cut_short_or_refused(world: World, stop: StopReason, reason: str) -> None:
    session = await world.spawn([say("well", stop=stop)])
    assert (await session.ask("hi")).stop_reason == reason


async def test_so_is_one_at_the_limit_of_rounds(world: World) -> None:
    session = await world.spawn([say(calls=[call("quick")]), "That is all."], tools=[quick()], max_rounds=2)
    assert (await session.ask("hi")).stop_reason == "max_rounds"


async def test_a_rest_is_returned_with_the_held_calls(world: World) -> None:
    session = await world.spawn(
        [say("I want to.", calls=[call("quick", {"a": 1})])], tools=[quick()], plugins=[Holder()]
    )
    reply = await session.ask("hi")
    assert (reply.stop_reason, reply.text) == ("held", "")  # what was said before the call is no answer
    assert reply.messages[-1].text == "I want to."
    (held,) = reply.held
    assert (held.kind, held.tool, dict(held.args), held.hint) == ("approval", "quick", {"a": 1}, "may it?")
    assert session.status().turn_open


async def test_a_question_is_a_rest_too(world: World) -> None:
    tools = [wanting("ask", Effect(AskPerson("which?", ("a", "b"))))]
    session = await world.spawn([say(calls=[call("ask")]), "So be it."], tools=tools)
    (held,) = (await session.ask("hi")).held
    assert (held.kind, held.hint, held.options) == ("question", "which?", ("a", "b"))
    await session.respond(held.id, "a")
    await until(lambda: session.status().phase == "idle" and not session.status().turn_open)


async def test_left_and_superseded_turns_have_rested_before(world: World) -> None:
    session = await world.spawn([say(calls=[call("quick")]), "New."], tools=[quick()], plugins=[Holder()])
    assert (await session.ask("hi")).stop_reason == "held"
    assert (await session.ask("something else")).text == "New."


async def test_an_abort_is_raised_with_its_reason(world: World) -> None:
    session = await world.spawn([stall(after=1)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(abort_soon, session)
        with pytest.raises(TurnAborted) as aborted:
            await session.ask("hi")
    assert aborted.value.args[1:] == ("user", "enough")


async def abort_soon(session: object) -> None:
    await trio.sleep(1)
    await session.abort("enough")  # type: ignore[attr-defined]  # a handle


async def test_a_provider_error_is_raised(world: World) -> None:
    session = await world.spawn([permanent("no such model")])
    with pytest.raises(TurnAborted) as aborted:
        await session.ask("hi")
    assert aborted.value.args[1:] == ("provider_error", "no such model")


async def test_a_refused_prompt_is_raised(world: World) -> None:
    session = await world.spawn(["ok"], plugins=[Refuser()])
    with pytest.raises(PromptWasRejected) as rejected:
        await session.ask("a bad one")
    assert rejected.value.args[1] == "not today"
    assert (await session.ask("a good one")).text == "ok"


async def test_a_dropped_or_withdrawn_prompt_is_raised(world: World) -> None:
    session = await world.spawn([stall()])
    await session.prompt("first")
    dropped: list[str] = []

    async def ask(text: str) -> None:
        with pytest.raises(PromptWasDropped) as raised:
            await session.ask(text)
        dropped.append(raised.value.args[1])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "second")
        await until(lambda: len(session.queued()) == 1)
        await session.withdraw(session.queued()[0].ref)
        nursery.start_soon(ask, "third")
        await until(lambda: len(session.queued()) == 1)
        await session.abort(clear_queue=True)
    assert dropped == ["it was withdrawn", "the queue was cleared"]


async def test_a_session_that_stops_is_raised(world: World) -> None:
    session = await world.spawn([stall()])
    outcomes: list[Exception] = []

    async def ask() -> None:
        try:
            await session.ask("hi")
        except (TurnAborted, PromptWasDropped, SessionNotAlive) as error:
            outcomes.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await until(lambda: session.status().turn_open)
        nursery.start_soon(ask)
        await until(lambda: len(session.queued()) == 1)
        await session.stop("bye")
    assert sorted(type(error).__name__ for error in outcomes) == ["PromptWasDropped", "TurnAborted"]
    with pytest.raises(SessionNotAlive):
        await session.ask("hi")


async def test_a_session_that_crashes_is_raised_to_everybody_who_waits() -> None:
    journal = TestJournal()
    crashed: list[SessionCrashed] = []
    async with open_world(journal) as world:
        session = await world.spawn([stall()])

        async def ask(text: str) -> None:
            with pytest.raises(SessionCrashed) as raised:
                await session.ask(text)
            crashed.append(raised.value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "first")
            await until(lambda: session.status().turn_open)
            nursery.start_soon(ask, "second")
            await until(lambda: len(session.queued()) == 1)
            journal.commit = 1.0
            journal.failing = lambda _: BROKEN
            nursery.start_soon(ask, "third, in the hand of the loop")
            nursery.start_soon(ask, "fourth, in the mailbox")
    assert len(crashed) == 4
    assert {str(error) for error in crashed} == {f"session `{session.id}` crashed: {BROKEN_CAUSE}"}


async def test_a_time_out_of_the_caller_aborts_nothing_and_harms_nobody(world: World) -> None:
    session = await world.spawn([say("a b c d", delay=1.0), "next"])
    with trio.move_on_after(2.5) as scope:
        await session.ask("hi")
    assert scope.cancelled_caught
    assert session.inspect().phase is Phase.STREAMING
    await until(lambda: not session.status().turn_open)
    assert (await session.ask("hi again")).text == "next"
    await settle()
    assert world.heard(session).said == "a b c dnext"


@pytest.mark.long
async def test_time_outs_while_the_commit_is_late_harm_nobody() -> None:
    async with open_world(TestJournal(commit=1.0)) as world:
        session = await world.spawn(["one", "two"])
        for _ in range(2):
            with trio.move_on_after(0.5) as scope:
                await session.prompt("hi")
            assert scope.cancelled_caught
        await until(lambda: session.status().turn == 2 and not session.status().turn_open)


async def test_many_callers_wait_for_their_own_turns(world: World) -> None:
    model = ScriptedModel([lambda request: str(request.messages[-1].text)] * 20)
    session = await world.spawn(model)
    replies: dict[str, str] = {}

    async def ask(text: str) -> None:
        replies[text] = (await session.ask(text)).text

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(ask, f"number {number}")
    assert replies == {f"number {number}": f"number {number}" for number in range(20)}


async def test_a_tool_that_is_slow_is_waited_for(world: World) -> None:
    session = await world.spawn([say(calls=[call("slow")]), "Done."], tools=[slow()])
    start = trio.current_time()
    assert (await session.ask("hi")).text == "Done."
    assert trio.current_time() - start == pytest.approx(3.0, abs=0.01)


async def test_a_prompt_that_was_accepted_can_be_waited_for_again_and_again(world: World) -> None:
    session = await world.spawn([say(calls=[call("quick")]), "Done."], tools=[quick()], plugins=[Holder()])
    asked_reply = await ask_at_once(session, "hi")
    assert asked_reply.accepted == Accepted("p1", "started")
    (held,) = (await asked_reply.reply()).held
    assert (await asked_reply.reply()).held == (held,)
    await session.approve(held.id)
    reply = await asked_reply.reply()
    assert (reply.stop_reason, reply.text) == ("end", "Done.")
    assert await asked_reply.reply() == reply


async def test_who_was_cancelled_while_waiting_can_wait_again(world: World) -> None:
    session = await world.spawn([stall()])
    reply = await ask_at_once(session, "hi")
    with trio.move_on_after(1) as limit:
        await reply.reply()
    assert limit.cancelled_caught
    await session.abort("enough")
    with pytest.raises(TurnAborted, match="enough"):
        await reply.reply()
    with pytest.raises(TurnAborted, match="enough"):
        await reply.reply()


async def test_a_prompt_with_a_command_id_that_was_sent_before_has_its_reply(world: World) -> None:
    session = await world.spawn(["Hello you."])
    first = await ask_at_once(session, "hi", command="once")
    reply = await first.reply()
    again = await ask_at_once(session, "hi", command="once")
    assert (again.accepted, await again.reply()) == (first.accepted, reply)


HELD_TWICE: Final = (say(calls=[call("quick")]), say(calls=[call("quick")]), "Done.")


async def waits_for(session: SessionHandle) -> str:
    """Wait until a call of *session* is held, and return its id."""
    await until(lambda: session.status().held)
    return session.status().held[0].id


async def test_the_end_of_a_turn_is_waited_for_through_each_hold(world: World) -> None:
    session = await world.spawn(HELD_TWICE, tools=[quick()], plugins=[Holder()])
    replies: list[Reply] = []

    async def ask() -> None:
        replies.append(await session.ask("hi", until="end", command="k"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        first = await waits_for(session)
        assert [held.id for held in (await session.ask("hi", command="k")).held] == [first]
        await session.approve(first)
        await until(lambda: session.status().held and session.status().held[0].id != first)
        assert not replies
        await session.approve(await waits_for(session))
    assert [(reply.stop_reason, reply.text, reply.held) for reply in replies] == [("end", "Done.", ())]


async def test_a_prompt_whose_end_is_waited_for_tells_no_rest(world: World) -> None:
    session = await world.spawn([say(calls=[call("quick")]), "Done."], tools=[quick()], plugins=[Holder()])
    reply = await ask_at_once(session, "hi", until="end")
    held = await waits_for(session)
    for _ in range(2):  # the second time, it waits with a slot of its own
        with trio.move_on_after(1) as limit:
            await reply.reply()
        assert limit.cancelled_caught
    await session.approve(held)
    assert (await reply.reply()).text == (await reply.reply()).text == "Done."


async def test_an_answer_that_is_refused_after_a_hold_goes_back_to_the_model(world: World) -> None:
    script: list[Element] = [say(calls=[call("quick")]), '{"number": 3}', '{"number": 4}']
    session = await world.spawn(script, tools=[quick()], plugins=[Holder()])
    answers: list[Even] = []

    async def ask() -> None:
        answers.append(await session.ask("hi", returns=Even, until="end"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await session.approve(await waits_for(session))
    assert answers == [Even(4)]


async def test_who_waits_for_the_end_hears_that_another_prompt_took_the_place(world: World) -> None:
    session = await world.spawn([say(calls=[call("quick")]), "New."], tools=[quick()], plugins=[Holder()])
    reply = await ask_at_once(session, "hi", until="end")
    await waits_for(session)
    assert (await session.ask("something else", until="end")).text == "New."
    assert (await reply.reply()).stop_reason == "superseded"


async def test_who_waits_for_the_end_hears_of_an_abort_and_of_a_stop(world: World) -> None:
    session = await world.spawn([say(calls=[call("quick")])] * 2, tools=[quick()], plugins=[Holder()])
    reply = await ask_at_once(session, "hi", until="end")
    await waits_for(session)
    await session.abort("enough")
    with pytest.raises(TurnAborted, match="enough"):
        await reply.reply()
    reply = await ask_at_once(session, "again", until="end")
    await waits_for(session)
    await session.stop("good bye")
    with pytest.raises((TurnAborted, SessionNotAlive)):
        await reply.reply()


async def test_a_session_sleeps_and_wakes_while_the_end_of_its_turn_is_waited_for(world: World) -> None:
    script: list[Element] = [say(calls=[call("quick")]), "Done."]
    session = await world.spawn(script, tools=[quick()], plugins=[Holder()], hibernate_after=10)
    reply = await ask_at_once(session, "hi", until="end")
    held = await waits_for(session)
    async with session.subscribe(types=[SessionHibernated]) as events:
        await anext(events)
    await session.approve(held)
    assert (await reply.reply()).text == "Done."


async def test_until_what_is_waited_for_is_checked_before_the_prompt_is_sent(world: World) -> None:
    session = await world.spawn(["Hello."])
    with pytest.raises(BadChoice, match="use one of `rest`, `end`"):
        await session.ask("hi", until="ends")  # type: ignore[call-overload]  # that is tried
    assert session.messages() == ()

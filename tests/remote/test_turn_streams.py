"""`stream` of a handle: the events of one turn, which end with it, and its reply; here and at a host alike.

On several hosts, each is `pytest.mark.long`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import attrs
import pytest
import trio

from agentrail import Abort, AnySession, Context, Plugin, Reply, SessionSpec, tool
from agentrail.errors import (
    AgentrailError,
    AlreadyLeft,
    BadChoice,
    NoAnswer,
    NotEntered,
    PromptWasDropped,
    PromptWasRejected,
    SessionNotAlive,
    TurnAborted,
    UsageError,
)
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentStart,
    ApprovalRequired,
    Event,
    MessageDelta,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptWithdrawn,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agentrail.plugins import BeforePrompt, HumanApproval
from agentrail.runtime.actor.session import Session
from agentrail.testing import ScriptedModel, call, say, stall
from tests.kit import Element
from tests.remote.gate import Gate
from tests.remote.session_access import EVERY_ACCESS, Open, local


@attrs.frozen
class City:
    """A city."""

    name: str


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@tool
async def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


class Refuses(Plugin):
    """Rejects each prompt."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Abort:
        return Abort("not today")


def scripted(*script: Element) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(list(script)))


def holds(*script: Element) -> SessionSpec:
    """Return a specification whose first turn waits for the approval of one call, beside one that runs."""
    calls = [call("pay", {"to": "ann"}), call("look", {"at": "the sea"})]
    model = ScriptedModel([say("Let me pay.", calls=calls), *script])
    return SessionSpec(model=model, tools=[pay, look], plugins=[HumanApproval(tools=["pay"])])


def waits(*script: Element) -> tuple[SessionSpec, Gate]:
    """Return a specification whose first turn calls a tool, and the gate that ends the call."""
    going = Gate()

    @tool
    async def wait() -> str:
        """Wait."""
        await going.wait()
        return "waited"

    return SessionSpec(model=ScriptedModel([say(calls=[call("wait")]), *script]), tools=[wait]), going


def names(events: list[Event]) -> list[str]:
    """Return the kinds of *events*, each once for as many in a row."""
    kinds = [type(event).__name__ for event in events]
    return [kind for index, kind in enumerate(kinds) if index == 0 or kinds[index - 1] != kind]


def refs(events: list[Event]) -> set[object]:
    """Return the ids of prompts that *events* name."""
    return {event.ref for event in events if isinstance(event, PromptReceived | PromptQueued | AgentStart | AgentEnd)}


async def exhausted(events: AsyncIterator[Event]) -> list[Event]:
    """Return the events, read to their end."""
    return [event async for event in events]


WHOLE = ["PromptReceived", "AgentStart", "RequestStart", "MessageStart", "MessageDelta", "ResponseComplete", "AgentEnd"]


@EVERY_ACCESS
async def test_the_events_end_with_the_turn_and_the_reply_is_that_of_ask(opened: Open) -> None:
    async with opened(scripted("Hello there.", "Again.")) as access:
        for text in ("Hello there.", "Again."):
            async with access.session.stream("hi") as turn:
                events = [event async for event in turn]
                assert names(events) == WHOLE
                assert "".join(event.delta for event in events if isinstance(event, MessageDelta)) == text
                assert [event async for event in turn] == []
            end = events[-1]
            assert isinstance(end, AgentEnd)
            assert turn.reply == Reply(end.ref, "end", end.messages, end.usage)
            assert turn.reply.text == text


@EVERY_ACCESS
async def test_a_held_call_ends_the_events_and_the_reply_says_so(opened: Open) -> None:
    async with opened(holds("Paid.")) as access:
        with trio.fail_after(30):
            async with access.session.stream("pay ann") as turn:
                events = [event async for event in turn]
        assert [type(event) for event in events if isinstance(event, ApprovalRequired | ToolExecutionEnd)] == [
            ApprovalRequired,
            ToolExecutionEnd,
        ]
        assert turn.reply.stop_reason == "held"
        assert [held.tool for held in turn.reply.held] == ["pay"]


@EVERY_ACCESS
async def test_until_the_end_the_events_go_on_after_a_decision(opened: Open) -> None:
    async with opened(holds("Paid.")) as access:
        with trio.fail_after(30):
            async with access.session.stream("pay ann", until="end") as turn:
                async for event in turn:
                    if isinstance(event, ApprovalRequired):
                        await access.session.approve(event.approval_id)
        assert turn.reply.text == "Paid."


@EVERY_ACCESS
async def test_a_prompt_behind_another_turn_gets_the_events_of_its_own(opened: Open) -> None:
    spec, going = waits("First.", "Second.", "Third.")
    async with opened(spec) as access:
        first = await access.session.prompt("one")
        async with access.session.stream("two") as turn:
            third = await access.session.prompt("three")
            going.set()
            events = [event async for event in turn]
        assert names(events) == ["PromptQueued", *WHOLE]
        assert refs(events) == {turn.reply.ref}
        assert turn.reply.ref not in {first.ref, third.ref}
        assert turn.reply.text == "Second."


@EVERY_ACCESS
async def test_prompts_of_others_are_not_among_the_events(opened: Open) -> None:
    spec, going = waits("Mine.", "Yours.")
    async with opened(spec) as access:
        async with access.session.stream("mine") as turn:
            events: list[Event] = []
            async for event in turn:
                events.append(event)
                if isinstance(event, ToolExecutionStart):
                    await access.session.prompt("yours")
                    await access.session.withdraw((await access.session.prompt("theirs")).ref)
                    going.set()
        assert refs(events) == {turn.reply.ref}
        assert not any(isinstance(event, PromptQueued | PromptWithdrawn) for event in events)


async def read(session: AnySession, events: list[Event], doing: str = "", command: str | None = None) -> None:
    """Read the events of a turn into *events*; *doing* is done to it while it is open or queued."""
    with trio.fail_after(30):
        async with session.stream("hi", command=command) as turn:
            async for event in turn:
                events.append(event)
                doing, done = ("", doing) if isinstance(event, PromptQueued | MessageDelta) else (doing, "")
                if isinstance(event, PromptQueued) and done == "withdraw":
                    await session.withdraw(event.ref)
                elif isinstance(event, PromptQueued) and done == "drop":
                    await session.abort("no more", clear_queue=True)
                elif isinstance(event, MessageDelta) and done == "abort":
                    await session.abort("enough")
                elif isinstance(event, MessageDelta) and done == "stop":
                    await session.stop("over")


@pytest.mark.parametrize(
    ("doing", "kind", "last"),
    [
        ("abort", TurnAborted, AgentAbort),
        ("stop", TurnAborted, AgentAbort),
        ("withdraw", PromptWasDropped, PromptWithdrawn),
        ("drop", PromptWasDropped, PromptDropped),
    ],
)
@EVERY_ACCESS
async def test_the_error_of_the_turn_is_raised_after_its_last_event(
    opened: Open, doing: str, kind: type[AgentrailError], last: type[Event]
) -> None:
    async with opened(scripted(stall(after=2))) as access:
        if doing in {"withdraw", "drop"}:
            await access.session.prompt("before it")
        events: list[Event] = []
        with pytest.raises(kind):
            await read(access.session, events, doing)
        assert type(events[-1]) is last


@EVERY_ACCESS
async def test_a_prompt_that_a_plugin_rejects_ends_as_ask_does(opened: Open) -> None:
    spec = scripted("hi").but(plugins=[Refuses()])
    async with opened(spec) as access:
        with pytest.raises(PromptWasRejected) as error:
            await access.session.ask("hi")
        events: list[Event] = []
        with pytest.raises(PromptWasRejected) as caught:
            await read(access.session, events)
        assert caught.value.args[1:] == error.value.args[1:]
        assert names(events) in ([], ["PromptRejected"])
        assert all(isinstance(event, PromptRejected) for event in events)


@EVERY_ACCESS
async def test_a_repeated_command_of_a_rejected_or_dropped_prompt_ends_at_once(opened: Open) -> None:
    async with opened(scripted(stall()).but(plugins=[Refuses()])) as access:
        await access.session.prompt("hi", command="c1")
        with trio.fail_after(30), pytest.raises(PromptWasRejected):
            await access.session.ask("hi", command="c1")
        with pytest.raises(PromptWasRejected):
            await read(access.session, [], command="c1")
    async with opened(scripted(stall())) as access:
        await access.session.prompt("before it")
        queued = await access.session.prompt("hi", command="c2")
        await access.session.withdraw(queued.ref)
        with trio.fail_after(30), pytest.raises(PromptWasDropped):
            await access.session.ask("hi", command="c2")
        with pytest.raises(PromptWasDropped):
            await read(access.session, [], command="c2")


@EVERY_ACCESS
async def test_an_ended_session_refuses_as_ask_does(opened: Open) -> None:
    async with opened(scripted("hi")) as access:
        await access.session.stop()
        with pytest.raises(SessionNotAlive):
            async with access.session.stream("hi"):
                pass


@EVERY_ACCESS
async def test_leaving_early_stops_listening_and_the_turn_goes_on(opened: Open) -> None:
    spec, going = waits("Done.")
    async with opened(spec) as access:
        stream = access.session.stream("hi", command="c1")
        async with stream as turn:
            async for event in turn:
                if isinstance(event, ToolExecutionStart):
                    break
            with pytest.raises(UsageError, match="there is no `reply` yet"):
                _ = turn.reply
        with pytest.raises(AlreadyLeft):
            await anext(turn)
        with pytest.raises(AlreadyLeft):
            await stream.__aenter__()  # it sends no second prompt
        going.set()
        assert (await access.session.ask("hi", command="c1")).text == "Done."


@EVERY_ACCESS
async def test_a_cancellation_leaves_and_the_turn_goes_on(opened: Open) -> None:
    spec, going = waits("Done.")
    async with opened(spec) as access:
        with trio.CancelScope() as scope:
            async with access.session.stream("hi", command="c1") as turn:
                async for event in turn:
                    if isinstance(event, ToolExecutionStart):
                        scope.cancel()
        assert scope.cancelled_caught
        going.set()
        assert (await access.session.ask("hi", command="c1")).text == "Done."


@EVERY_ACCESS
async def test_an_error_of_the_body_is_raised_as_it_is(opened: Open) -> None:
    async with opened(scripted("hi")) as access:
        with pytest.raises(KeyError, match="mine"):
            async with access.session.stream("hi"):
                raise KeyError("mine")


@EVERY_ACCESS
async def test_a_repeated_command_gives_the_reply_and_no_second_turn(opened: Open) -> None:
    async with opened(scripted("One.", "Two.")) as access:
        reply = await access.session.ask("hi", command="c1")
        with trio.fail_after(30):
            async with access.session.stream("hi", command="c1") as turn:
                assert [event async for event in turn] == []
        assert turn.reply == reply


@EVERY_ACCESS
async def test_an_answer_is_an_object_as_of_ask(opened: Open) -> None:
    async with opened(scripted('{"name": "Rome"}', stall())) as access:
        async with access.session.stream("which?", returns=City) as turn:
            async for event in turn:
                if isinstance(event, AgentEnd):
                    break
        assert turn.reply == City("Rome")  # it is there as soon as the turn has ended


@EVERY_ACCESS
async def test_no_answer_is_an_error_as_of_ask(opened: Open) -> None:
    async with opened(holds()) as access, access.session.stream("which?", returns=City) as turn:
        with pytest.raises(NoAnswer):
            await exhausted(turn)
        with pytest.raises(NoAnswer):
            _ = turn.reply


@EVERY_ACCESS
async def test_it_is_entered_first_and_its_arguments_are_checked_before(opened: Open) -> None:
    async with opened(scripted("hi")) as access:
        turn = access.session.stream("hi")
        with pytest.raises(NotEntered):
            await exhausted(cast("AsyncIterator[Event]", turn))
        with pytest.raises(BadChoice):
            access.session.stream("hi", until="now")  # type: ignore[call-overload]  # on purpose
        with pytest.raises(UsageError):
            access.session.stream(3)  # type: ignore[call-overload]  # on purpose


@EVERY_ACCESS
async def test_a_slow_reader_gets_all_lasting_events_and_slows_nobody(opened: Open) -> None:
    words = " ".join(["word"] * 3_000)
    async with opened(scripted(say(words, delay=None), "Second.")) as access, access.session.stream("hi") as turn:
        assert (await access.session.ask("and you?")).text == "Second."
        events = [event async for event in turn]
    assert [name for name in names(events) if name not in {"Gap", "MessageDelta"}] == [
        name for name in WHOLE if name != "MessageDelta"
    ]
    assert turn.reply.text == words


async def test_nothing_is_left_of_a_stream_that_was_left() -> None:
    async with local(scripted(stall())) as access:
        async with access.session.stream("hi") as turn:
            await anext(turn)
        session = cast("Session", getattr(access.session, "_session"))  # noqa: B009 - for type checkers
        assert not session.waiters
        assert "subscription" not in repr(session.events)
        assert session.state.turn is not None

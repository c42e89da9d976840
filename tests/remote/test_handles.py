"""What handles promise: the same of a session here and of one at a host, with the same errors.

On several hosts, each is `pytest.mark.long`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypedDict, cast

import attrs
import pytest
import trio

from agentrail import AnySession, SessionSpec, awaited, tool
from agentrail.errors import (
    AgentrailError,
    BadChoice,
    BadResult,
    BadReturns,
    CommandConflict,
    NoAnswer,
    ResultNotWanted,
    SessionNotAlive,
    TurnAborted,
    UnknownApproval,
    UnknownCursor,
    UnknownPlugin,
    UnknownPrompt,
    UnknownTask,
    UnknownTool,
    UsageError,
    WrongDecision,
    WrongType,
)
from agentrail.events import AgentEnd, AgentStart, ApprovalRequired, BeforeCompact, MessageDelta, PromptReceived
from agentrail.models import AssistantMessage, Data, Json, Text, ToolCall, ToolMessage, UserMessage
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, fail, say
from agentrail.tools import Ok, builtin, ok
from tests.kit import Element
from tests.remote.gate import Gate
from tests.remote.session_access import EVERY_ACCESS, Open


@attrs.frozen
class City:
    """A city."""

    name: str
    people: int


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


def scripted(*script: Element) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(list(script)))


def waits(*script: Element) -> tuple[SessionSpec, Gate]:
    """Return a specification whose first turn calls a tool, and the gate that ends the call."""
    going = Gate()

    @tool
    async def wait() -> str:
        """Wait."""
        await going.wait()
        return "waited"

    return SessionSpec(model=ScriptedModel([say(calls=[call("wait")]), *script]), tools=[wait]), going


def holds(*script: Element) -> SessionSpec:
    """Return a specification whose first turn waits for the approval of a call."""
    model = ScriptedModel([say(calls=[call("pay", {"to": "ann"})]), *script])
    return SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(tools=["pay"])])


async def texts_of(session: AnySession) -> list[str]:
    return [message.text for message in await awaited(session.messages())]


async def raised(doing: Awaitable[object]) -> AgentrailError:
    with pytest.raises(AgentrailError) as caught:
        await doing
    return caught.value


# What is no message, and no other field of a command

HALF: Final = "text with half a surrogate pair"
UNFIT: Final[dict[str, tuple[Callable[[Any], Awaitable[object]], AgentrailError]]] = {
    "a number": (lambda session: session.ask(3), UsageError("bad-message", "the text", "a `int`")),
    "nothing": (lambda session: session.prompt(None), UsageError("bad-message", "the text", "a `NoneType`")),
    "a list of numbers": (lambda session: session.prompt([3]), UsageError("bad-message", "a part", "a `int`")),
    "bytes": (lambda session: session.prompt(b"hi"), UsageError("bad-message", "a part", "a `int`")),
    "half a pair": (
        lambda session: session.prompt("\ud800"),
        UsageError("bad-message", "the text", HALF),
    ),
    "half a pair in a part": (
        lambda session: session.ask([Text("\ud800")]),
        UsageError("bad-message", "a part", HALF),
    ),
    "steering": (lambda session: session.steer(3), UsageError("bad-message", "the text", "a `int`")),
    "a command id": (
        lambda session: session.steer("hi", command=3),
        UsageError("bad-message", "the command id", "a `int`"),
    ),
    "a reason": (lambda session: session.abort(3), UsageError("bad-message", "the reason", "a `int`")),
    "a flag": (lambda session: session.abort(clear_queue="no"), BadChoice("clear_queue", "no", "`True`, `False`")),
    "a reason to stop": (lambda session: session.stop(None), UsageError("bad-message", "the reason", "a `NoneType`")),
    "a reason to compact": (lambda session: session.compact(3), UsageError("bad-message", "the reason", "a `int`")),
    "an approval": (
        lambda session: session.approve(3),
        WrongType("approval_id", "a `int`", "one of the calls in `reply.held`, or its id"),
    ),
    "a question": (
        lambda session: session.respond((), "yes"),
        WrongType("ref", "a `tuple`", "one of the calls in `reply.held`, or its id"),
    ),
    "a rejection": (lambda session: session.reject("x", 3), UsageError("bad-message", "the reason", "a `int`")),
    "an answer": (lambda session: session.respond("x", 3), UsageError("bad-message", "the answer", "a `int`")),
    "a plugin": (
        lambda session: session.update_plugin("Zork", size=3),
        UnknownPlugin("Zork", "`HumanApproval`"),
    ),
}


@pytest.mark.parametrize("what", UNFIT)
@EVERY_ACCESS
async def test_what_no_command_takes_is_refused_by_the_same_class_everywhere(opened: Open, what: str) -> None:
    doing, refused = UNFIT[what]
    async with opened(holds("fine")) as access:
        error = await raised(doing(access.session))
        assert (type(error), error.args[0]) == (type(refused), refused.args[0])
        if not isinstance(refused, UnknownPlugin):  # a host has plugins of its own
            assert error == refused


# Talking


@EVERY_ACCESS
async def test_a_prompt_is_accepted_and_those_after_it_are_queued(opened: Open) -> None:
    spec, going = waits("done", "two", "three")
    async with opened(spec) as access:
        session = access.session
        first, second, third = [await session.prompt(text) for text in ("one", "two", "three")]
        assert [(entry.status, entry.position) for entry in (first, second, third)] == [
            ("started", 0),
            ("queued", 1),
            ("queued", 2),
        ]
        assert [(entry.ref, entry.text) for entry in await awaited(session.queued())] == [
            (second.ref, "two"),
            (third.ref, "three"),
        ]
        await session.withdraw(second.ref)
        assert await raised(session.withdraw(second.ref)) == UnknownPrompt(second.ref)
        going.set()
        assert (await session.ask("four")).text == "three"
        assert (await awaited(session.status())).turn == 3


@EVERY_ACCESS
async def test_a_reply_has_the_messages_of_its_turn(opened: Open) -> None:
    async with opened(scripted("hello")) as access:
        reply = await access.session.ask([Text("hi"), Text("there")])
        assert (reply.ref, reply.stop_reason, reply.text, reply.held, reply.fits) == ("p1", "end", "hello", (), False)
        assert [type(message) for message in reply.messages] == [UserMessage, AssistantMessage]
        assert reply.messages == await awaited(access.session.messages())
        assert reply.usage == (await awaited(access.session.status())).usage


@EVERY_ACCESS
async def test_an_answer_is_an_object_of_the_class_that_was_asked_for(opened: Open) -> None:
    answers = ("Paris", '{"name": "Paris", "people": 2}', '{"value": [1, 2]}', '{"x": 1}')
    async with opened(scripted(*answers)) as access:
        assert await access.session.ask("where?", returns=City) == City("Paris", 2)
        assert await access.session.ask("how many?", returns=list[int]) == [1, 2]
        assert await access.session.ask("and?", returns={"type": "object", "required": ["x"]}) == {"x": 1}
        assert type(await raised(access.session.ask("hi", returns={"type": "nothing"}))) is BadReturns


@EVERY_ACCESS
async def test_a_turn_that_waits_for_a_person_has_no_answer_yet(opened: Open) -> None:
    async with opened(holds('{"x": 1}')) as access:
        form = {"type": "object", "required": ["x"]}
        assert await raised(access.session.ask("pay", returns=form, command="k1")) == NoAnswer("p1", "held")
        (held,) = (await awaited(access.session.status())).held
        await access.session.approve(held.id)
        assert await access.session.ask("pay", returns=form, command="k1") == {"x": 1}


@EVERY_ACCESS
async def test_the_end_of_a_turn_is_waited_for_while_a_person_decides(opened: Open) -> None:
    async with opened(holds('{"x": 1}')) as access:
        answers: list[Json] = []

        async def ask() -> None:
            form = {"type": "object", "required": ["x"]}
            answers.append(await access.session.ask("pay", returns=form, until="end"))

        async with access.session.subscribe(types=[ApprovalRequired]) as events, trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await anext(aiter(events))
            (held,) = (await awaited(access.session.status())).held
            await access.session.approve(held.id)
        assert answers == [{"x": 1}]
        wrong = await raised(access.session.ask("pay", until="ends"))  # type: ignore[call-overload]  # that is tried
        assert wrong == BadChoice.among("until", "ends", ("rest", "end"))


@EVERY_ACCESS
async def test_steering_is_in_the_next_request(opened: Open) -> None:
    spec, going = waits("done", "more")
    async with opened(spec) as access:
        async with access.session.subscribe() as events:
            await access.session.prompt("go")
            while (await awaited(access.session.status())).phase != "executing_tools":
                await anext(aiter(events))
        steered = await access.session.steer("be brief")
        assert steered.status == "queued"
        going.set()
        assert (await access.session.ask("go on")).text == "more"
        assert "be brief" in await texts_of(access.session)
        bad = await raised(access.session.steer("x", when="soon"))  # type: ignore[arg-type]  # it is wrong
        assert bad == BadChoice("when", "soon", "`gap`, `now`")


@EVERY_ACCESS
async def test_an_abort_ends_the_turn_and_tells_who_waits(opened: Open) -> None:
    spec, _ = waits("done", "again")
    async with opened(spec) as access:
        errors: list[AgentrailError] = []

        async def wait(text: str) -> None:
            errors.append(await raised(access.session.ask(text)))

        async with trio.open_nursery() as nursery:
            async with access.session.subscribe(types=[AgentStart]) as events:
                nursery.start_soon(wait, "one")
                await anext(aiter(events))
            queued = await access.session.prompt("two")
            await access.session.abort("enough", clear_queue=True)
        assert errors == [TurnAborted("p1", "user", "enough")]
        assert queued.status == "queued"
        assert await awaited(access.session.queued()) == ()


@EVERY_ACCESS
async def test_a_turn_whose_model_fails_is_aborted(opened: Open) -> None:
    async with opened(scripted(fail(ValueError("broken")))) as access:
        error = await raised(access.session.ask("hi"))
        assert (type(error), error.args[:2]) == (TurnAborted, ("p1", "provider_error"))


# Deciding


@EVERY_ACCESS
async def test_the_reply_of_a_turn_that_another_call_has_begun_can_be_waited_for(opened: Open) -> None:
    async with opened(holds(say(calls=[call("pay", {"to": "bob"})]), "thanks")) as access:
        session = access.session
        nothing = await raised(session.reply())
        assert isinstance(nothing, UsageError)
        assert nothing.code == "no-turn"
        rest = await session.ask("go")
        assert await session.reply() == rest
        await session.approve(rest.held[0])
        second = await session.reply(rest.ref)
        assert (second.text, [held.args["to"] for held in second.held]) == ("", ["bob"])
        await session.approve(second.held[0])
        end = await session.reply()
        assert (end.ref, end.text, end.held) == (rest.ref, "thanks", ())
        assert await session.reply(rest.ref, until="end") == end
        unknown = await raised(session.reply("p99"))
        assert isinstance(unknown, UsageError)
        assert unknown.code == "unknown-turn"
        for wrong, kind in (({"ref": 5}, WrongType), ({"until": "ends"}, BadChoice)):
            assert type(await raised(session.reply(**cast("Any", wrong)))) is kind


class Weather(TypedDict):
    degrees: int


@tool(elsewhere=True)
async def weather(city: str) -> Weather:
    """Look up the weather."""
    raise NotImplementedError


@EVERY_ACCESS
async def test_a_call_that_is_made_elsewhere_gets_its_result_once(opened: Open) -> None:
    calls = say(calls=[call("weather", {"city": "Bonn"})])
    spec = SessionSpec(model=ScriptedModel([calls, "nice", calls]), tools=[weather])
    async with opened(spec) as access:
        session = access.session
        (held,) = (await session.ask("go")).held
        assert (held.kind, held.tool, held.expires_at is None) == ("result", "weather", False)
        assert isinstance(await raised(session.result(held, ok("warm"))), BadResult)
        assert isinstance(await raised(session.approve(held)), WrongDecision)
        fitting = Ok((Data({"degrees": 3}),))
        await session.result(held, fitting)
        await session.result(held.id, fitting)
        assert (await session.reply()).text == "nice"
        await session.result(held, fitting)
        assert isinstance(await raised(session.result(held, ok('{"degrees": 4}'))), ResultNotWanted)
        (other,) = (await session.ask("go on")).held
        await session.abort()
        assert isinstance(await raised(session.result(other, fitting)), ResultNotWanted)


@EVERY_ACCESS
async def test_a_held_call_is_approved_with_other_arguments(opened: Open) -> None:
    async with opened(holds("done")) as access:
        reply = await access.session.ask("pay", command="k")
        assert reply.stop_reason == "held"
        (held,) = reply.held
        assert (held.kind, held.tool, held.args, held.path) == ("approval", "pay", {"to": "ann"}, ())
        assert (await awaited(access.session.status())).held == reply.held
        assert await raised(access.session.respond(held.id, "yes")) == WrongDecision(
            held.id, "respond to", "a held call", "`session.approve` or `session.reject`"
        )
        await access.session.approve(held, {"to": "bob"})
        assert (await access.session.ask("pay", command="k")).text == "done"
        results = [result for result in await awaited(access.session.messages()) if isinstance(result, ToolMessage)]
        assert [result.text for result in results] == ["paid bob"]
        assert type(await raised(access.session.approve(held.id))) is UnknownApproval


@EVERY_ACCESS
async def test_a_held_call_is_rejected_with_a_reason(opened: Open) -> None:
    async with opened(holds("done")) as access:
        (held,) = (await access.session.ask("pay", command="k")).held
        await access.session.reject(held.id, "too much", auto_resume=True)
        assert (await access.session.ask("pay", command="k")).text == "done"
        assert any("too much" in text for text in await texts_of(access.session))


@EVERY_ACCESS
async def test_a_question_is_answered(opened: Open) -> None:
    asks = say(calls=[call("ask_user", {"question": "which?"})])
    spec = SessionSpec(model=ScriptedModel([asks, "thanks"]), tools=[builtin.ask_user])
    async with opened(spec) as access:
        (held,) = (await access.session.ask("hi", command="k")).held
        assert (held.kind, held.hint) == ("question", "which?")
        await access.session.respond(held.id, "the red one")
        assert (await access.session.ask("hi", command="k")).text == "thanks"
        assert any("the red one" in text for text in await texts_of(access.session))


@EVERY_ACCESS
async def test_what_waits_for_a_person_is_listed_by_session(opened: Open) -> None:
    inner = holds("inner done").but(description="Pays.")
    pays = call("task", {"agent": "payer", "description": "pay", "prompt": "go"})
    spec = SessionSpec(model=ScriptedModel([say(calls=[pays]), "done"]), agents={"payer": inner})
    async with opened(spec) as access:
        assert await awaited(access.supervisor.approvals()) == {}
        reply = await access.session.ask("pay", command="k")
        (held,) = reply.held
        assert (held.tool, held.args, len(held.path)) == ("pay", {"to": "ann"}, 2)
        assert await awaited(access.supervisor.approvals()) == {access.session.id: reply.held}
        await access.session.approve(held.id)
        assert (await access.session.ask("pay", command="k")).text == "done"
        assert await awaited(access.supervisor.approvals()) == {}


# Changing


@EVERY_ACCESS
async def test_a_session_is_compacted_when_it_is_told_to(opened: Open) -> None:
    async with opened(scripted("hello", "summary")) as access:
        await access.session.ask("hi")
        async with access.session.subscribe(types=[BeforeCompact]) as events:
            await access.session.compact("to see")
            assert cast("BeforeCompact", (await anext(aiter(events))).event).reason == "to see"


@EVERY_ACCESS
async def test_a_fork_has_the_past_of_its_origin(opened: Open) -> None:
    async with opened(scripted("one", "two", "three")) as access:
        await access.session.ask("first")
        fork = await access.session.fork(id="copy")
        assert fork.id == f"{access.seen}copy"
        assert await texts_of(fork) == ["first", "one"]
        await fork.ask("second")
        assert await texts_of(access.session) == ["first", "one"]
        assert type(await raised(access.session.fork(id="copy"))) in access.taken


@EVERY_ACCESS
async def test_labels_and_title_are_changed_and_found(opened: Open) -> None:
    async with opened(scripted("one")) as access:
        await access.session.label(["work", "old"], title="A trip")
        await access.session.label((), ["old"])
        (stored,) = await access.supervisor.stored()
        assert (stored.about.title, stored.about.labels, stored.ended) == ("A trip", ("work",), False)
        assert (stored.session_id, stored.about.spec) == (access.session.id, stored.about.spec)
        many = await raised(access.session.label([str(number) for number in range(70)]))
        assert many == UsageError("too-many-labels", 71, 64)


@EVERY_ACCESS
async def test_tools_and_plugins_are_taken_away_by_name(opened: Open) -> None:
    async with opened(holds("done", "two")) as access:
        await access.session.detach_plugin("HumanApproval")
        await access.session.detach_tools("pay")
        assert await raised(access.session.detach_tools("pay")) == UnknownTool("pay", "none")


@EVERY_ACCESS
async def test_a_session_that_is_suspended_waits(opened: Open) -> None:
    async with opened(scripted("one")) as access:
        await access.session.suspend()
        (seen,) = (await awaited(access.supervisor.tree())).children
        assert (seen.name, seen.suspended) == (access.session.id, True)
        await access.session.resume()
        assert (await access.session.ask("hi")).text == "one"


@EVERY_ACCESS
async def test_a_monitor_tells_of_the_end(opened: Open) -> None:
    async with opened(scripted("one")) as access:
        await access.session.ask("hi")
        async with access.session.monitor() as monitor:
            await access.session.stop("enough")
            down = await monitor.wait()
        assert (down.session_id, down.reason) == (access.session.id, "enough")
        assert await raised(access.session.prompt("hi")) == SessionNotAlive(access.session.id, "enough")


# Commands that are sent twice


@EVERY_ACCESS
async def test_a_command_that_is_sent_twice_is_carried_out_once(opened: Open) -> None:
    async with opened(scripted("one", "two")) as access:
        first = await access.session.ask("hi", command="k")
        assert await access.session.ask("hi", command="k") == first
        assert await texts_of(access.session) == ["hi", "one"]
        conflict = await raised(access.session.prompt("other", command="k"))
        assert type(conflict) is CommandConflict


# Events


@EVERY_ACCESS
async def test_events_are_replayed_from_a_cursor_and_go_on_live(opened: Open) -> None:
    async with opened(scripted("one", "two")) as access:
        await access.session.ask("first")
        seen = []
        async with access.session.subscribe(since=0) as events:
            async for envelope in events:
                seen.append(envelope)
                if isinstance(envelope.event, AgentEnd):
                    break
        assert {envelope.session_id for envelope in seen} == {access.session.id}
        durable = [envelope.seq for envelope in seen if envelope.event.durable]
        assert durable == [*range(1, durable[-1] + 1)]
        async with access.session.subscribe(since=seen[-1].cursor, types=[PromptReceived, AgentEnd]) as events:
            second = await access.session.ask("second")
            later = [await anext(aiter(events)), await anext(aiter(events))]
        assert [type(envelope.event) for envelope in later] == [PromptReceived, AgentEnd]
        assert later[0].seq > seen[-1].seq
        assert cast("AgentEnd", later[1].event).ref == second.ref


@EVERY_ACCESS
async def test_deltas_come_with_a_place_of_their_own(opened: Open) -> None:
    async with opened(scripted(say("one two three", chunks=3))) as access:
        async with access.session.subscribe(types=[MessageDelta, AgentEnd], policy="disconnect") as events:
            await access.session.prompt("hi")
            texts = []
            async for envelope in events:
                if isinstance(envelope.event, AgentEnd):
                    break
                assert envelope.n > 0
                texts.append(cast("MessageDelta", envelope.event).delta)
        assert "".join(texts) == "one two three"


WRONG: Final[dict[str, tuple[Callable[[AnySession], object], type[AgentrailError]]]] = {
    "since": (lambda session: session.subscribe(since=cast("int", "now")), WrongType),
    "types": (lambda session: session.subscribe(types=cast("list[type[AgentEnd]]", [1])), WrongType),
    "policy": (lambda session: session.subscribe(policy="x"), BadChoice),  # type: ignore[arg-type]  # wrong
}


@EVERY_ACCESS
@pytest.mark.parametrize("argument", WRONG)
async def test_a_subscription_with_a_wrong_argument_is_refused_at_once(opened: Open, argument: str) -> None:
    subscribe, expected = WRONG[argument]
    async with opened(scripted()) as access:
        with pytest.raises(expected):
            subscribe(access.session)


@EVERY_ACCESS
async def test_a_cursor_of_another_session_is_refused(opened: Open) -> None:
    async with opened(scripted()) as access:
        with pytest.raises(UnknownCursor) as caught:
            async with access.session.subscribe(since=1000):
                pass
        assert caught.value.args[:2] == (access.session.id, 1000)


# Sub-agents


@EVERY_ACCESS
async def test_sub_agents_are_listed_awaited_written_to_and_stopped(opened: Open) -> None:
    slow, _ = waits()
    background: dict[str, Json] = {"description": "look", "prompt": "go", "background": True}
    both = [call("task", {"agent": name, **background}) for name in ("quick", "slow")]
    agents = {"quick": scripted("found it").but(description="Finds."), "slow": slow.but(description="Waits.")}
    async with opened(SessionSpec(model=ScriptedModel([say(calls=both), "started"]), agents=agents)) as access:
        session = access.session
        await session.ask("go")
        quick, working = sorted(await awaited(session.tasks()), key=lambda task: task.agent)
        assert [(task.agent, task.background) for task in (quick, working)] == [("quick", True), ("slow", True)]
        answer = await session.task_result(quick.child)
        assert answer.content == (Text("found it"),)
        assert await session.wait_tasks(quick.child, working.child, every=False) == {quick.child: answer}
        assert await session.wait_tasks(working.child, seconds=0) == {}
        await session.message_task(working.child, "hurry")
        await session.cancel_task(working.child)
        unknown = await raised(session.task_result(f"{session.id}.none"))
        assert (type(unknown), unknown.args[0]) == (UnknownTask, f"{session.id}.none")


# Supervisors


@EVERY_ACCESS
async def test_a_session_is_blotted_out_and_deleted(opened: Open) -> None:
    async with opened(scripted("one", "two")) as access:
        await access.session.ask("first")
        await access.session.stop()
        (stored,) = await access.supervisor.stored()
        assert await access.redact(access.session.id) > 0
        await access.supervisor.delete(access.session.id)
        assert await access.supervisor.stored() == ()
        assert stored.ended


@EVERY_ACCESS
async def test_the_tree_has_the_session(opened: Open) -> None:
    async with opened(scripted("one")) as access:
        (seen,) = (await awaited(access.supervisor.tree())).children
        assert (seen.name, seen.kind, seen.state, seen.phase) == (access.session.id, "session", "running", "idle")
        assert [session.id for session in await awaited(access.supervisor.sessions())] == [access.session.id]
        assert access.supervisor.session(access.session.id).id == access.session.id
        assert access.supervisor.session("trip").id == access.session.id


# What a text drops that waits for a person


Send = Callable[[AnySession], Awaitable[tuple[ToolCall, ...]]]


async def _streamed(session: AnySession) -> tuple[ToolCall, ...]:
    async with session.stream("never mind") as turn:
        async for _ in turn:
            pass
    return turn.reply.dropped


async def _asked(session: AnySession) -> tuple[ToolCall, ...]:
    first = await session.ask("never mind", command="once")
    again = await session.ask("never mind", command="once")
    assert again.dropped == first.dropped
    return first.dropped


async def _prompted(session: AnySession) -> tuple[ToolCall, ...]:
    return (await session.prompt("never mind")).dropped


async def _steered(session: AnySession) -> tuple[ToolCall, ...]:
    return (await session.steer("never mind")).dropped


@pytest.mark.parametrize("send", [_asked, _streamed, _prompted, _steered])
@EVERY_ACCESS
async def test_a_text_tells_which_calls_that_waited_for_a_person_it_dropped(opened: Open, send: Send) -> None:
    async with opened(holds("fine", "fine")) as access:
        reply = await access.session.ask("pay ann")
        assert (reply.stop_reason, reply.dropped) == ("held", ())
        (dropped,) = await send(access.session)
        assert (dropped.call_id, dropped.name, dropped.args) == (reply.held[0].call_id, "pay", {"to": "ann"})
        assert (await access.session.ask("and now?")).dropped == ()


@pytest.mark.parametrize("send", [_asked, _streamed, _prompted, _steered])
@EVERY_ACCESS
async def test_the_log_tells_once_which_calls_a_text_dropped(
    opened: Open, send: Send, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(holds("fine", "fine")) as access:
        await access.session.ask("pay ann")
        (dropped,) = await send(access.session)
        (line,) = [record.getMessage() for record in caplog.records if record.name == "agentrail.session"]
        assert f"dropped what waited for a person (`pay` {dropped.call_id}), which does not run" in line

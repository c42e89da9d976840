"""Sessions that are parked before their process ends: what cannot be repeated ends first."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import pytest
import trio

from agentrail import Ask, Context, Continue, Plugin, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.core.vocabulary.commands import LabelSent
from agentrail.errors import SessionParked, SupervisorClosed, WrongType
from agentrail.events import Event, SubagentEnd, ToolUnknown
from agentrail.journals import Journal
from agentrail.plugins import BeforeRequest, HumanApproval, RunTool
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.tools import EffectClass, Unknown
from tests.kit import Element
from tests.runtime.families import agent, task
from tests.runtime.journals import BROKEN, TestJournal
from tests.runtime.tools import Fake, fake, slow
from tests.runtime.world import settle, spec_of, until

NEVER = 1000.0


class Probed(Fake):
    """A tool whose probe never knows."""

    async def probe(self, _key: str) -> Unknown:
        await trio.lowlevel.checkpoint()
        return Unknown()


def lasting(name: str, seconds: float, effect: EffectClass) -> Fake:
    """Return a tool of this class that takes *seconds*."""
    new_value = fake(name, slow(name, seconds).body, effect=effect)
    return Probed(new_value.spec, new_value.body, new_value.calls) if effect is EffectClass.CHECKABLE else new_value


async def begun(supervisor: Supervisor, script: Sequence[Element], name: str = "s", **spec: object) -> SessionHandle:
    session = await supervisor.spawn(spec_of(ScriptedModel(script), **spec), name)
    await session.prompt("go")
    await trio.sleep(0.5)
    return session


async def parked_after(supervisor: Supervisor, within: float = 60.0) -> float:
    """Drain the supervisor, and return how long that took."""
    began = trio.current_time()
    await supervisor.drain(within)
    assert supervisor.sessions() == ()
    return round(trio.current_time() - began, 3)


async def events_of(journal: Journal, session_id: str = "s") -> list[Event]:
    return [event.event for record in await journal.read(session_id, 0, 10_000) for event in record.events]


async def texts_after(journal: Journal, specs: Mapping[str, SessionSpec]) -> dict[str, list[str]]:
    """Bring sessions back in the next process, and return their messages when their turns are over."""
    async with open_supervisor(journal=journal) as supervisor:
        sessions = [await supervisor.resume(name, spec) for name, spec in specs.items()]
        for session in sessions:
            await until(lambda session=session: session.inspect().turn is None)  # type: ignore[misc]  # bound at once
        return {session.id: [message.text for message in session.messages()] for session in sessions}


@pytest.mark.long
async def test_what_can_be_taken_up_again_is_parked_at_once() -> None:
    journal = TestJournal()
    look = lasting("look", NEVER, EffectClass.PURE)
    again = lasting("look", 1.0, EffectClass.PURE)
    send, watch = slow("send", 1.0), HumanApproval("send")
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.spawn(spec_of(ScriptedModel()), "idle")
        await begun(supervisor, [stall(after=1)], "streams")
        await begun(supervisor, [say(calls=[call("look")])], "looks", tools=[look])
        await begun(supervisor, [say(calls=[call("send")])], "held", tools=[send], plugins=[watch])
        await begun(supervisor, [], "sleeps", hibernate_after=0.1)
        assert await parked_after(supervisor) == 0
    assert await texts_after(
        journal,
        {
            "idle": spec_of(ScriptedModel()),
            "streams": spec_of(ScriptedModel(["fine"])),
            "looks": spec_of(ScriptedModel(["seen"]), tools=[again]),
        },
    ) == {"idle": [], "streams": ["go", "fine"], "looks": ["go", "", "done after 1 s", "seen"]}
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("held", spec_of(ScriptedModel(["sent"]), tools=[send], plugins=[watch]))
        (waiting,) = session.status().held
        await session.approve(waiting.id)
        await until(lambda: session.inspect().turn is None)
        assert session.messages()[-1].text == "sent"
    for name in ("streams", "looks", "held"):
        assert not [event for event in await events_of(journal, name) if isinstance(event, ToolUnknown)]


@pytest.mark.parametrize("effect", [EffectClass.UNSAFE, EffectClass.CHECKABLE])
async def test_a_call_that_cannot_be_repeated_ends_first(effect: EffectClass) -> None:
    journal = TestJournal()
    send = lasting("send", 2.0, effect)
    async with open_supervisor(journal=journal) as supervisor:
        session = await begun(supervisor, [say(calls=[call("send")]), stall()], tools=[send])
        waiting: list[BaseException] = []

        async def ask() -> None:
            try:
                await session.ask("and then?")
            except SessionParked as error:
                waiting.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await settle()
            assert await parked_after(supervisor) == 1.5
        assert [error.args for error in waiting] == [("s",)]
    assert await texts_after(journal, {"s": spec_of(ScriptedModel(["sent", "then this"]), tools=[send])}) == {
        "s": ["go", "", "done after 2 s", "sent", "and then?", "then this"]
    }
    assert len(send.calls) == 1
    assert not [event for event in await events_of(journal) if isinstance(event, ToolUnknown)]


async def test_calls_of_one_response_that_come_one_after_the_other_end_together() -> None:
    journal = TestJournal()
    send = fake("send", slow("send", 1.0).body, parallel=False)
    script = [say(calls=[call("send", {"to": to}) for to in ("ann", "bob", "eve")])]
    async with open_supervisor(journal=journal) as supervisor:
        await begun(supervisor, script, tools=[send])
        assert await parked_after(supervisor) == 2.5
    assert len(send.calls) == 3
    assert not [event for event in await events_of(journal) if isinstance(event, ToolUnknown)]


async def test_what_is_cut_short_is_named(caplog: pytest.LogCaptureFixture) -> None:
    journal = TestJournal()
    send, look = slow("send", NEVER, timeout=NEVER), lasting("look", NEVER, EffectClass.PURE)
    async with open_supervisor(journal=journal) as supervisor:
        session = await begun(supervisor, [say(calls=[call("send"), call("look")])], tools=[send, look])
        calls = session.inspect().batch
        assert calls is not None
        assert await parked_after(supervisor, 3) == 3
    (named,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    call_id = calls.calls[0].call_id
    why = "which cannot be repeated: nobody knows its outcome"
    assert named == f"session s is parked while its call {call_id} of `send` runs, {why}"
    again = lasting("look", 1.0, EffectClass.PURE)
    await texts_after(journal, {"s": spec_of(ScriptedModel(["well"]), tools=[send, again])})
    assert [event for event in await events_of(journal) if isinstance(event, ToolUnknown)] == [
        ToolUnknown(call_id, "send")
    ]


async def test_a_family_is_parked_together() -> None:
    journal = TestJournal()
    send = slow("send", 2.0)

    def spec(*child: Element, parent: Sequence[Element]) -> SessionSpec:
        return spec_of(ScriptedModel(parent), agents={"finder": agent(child, tools=[send])})

    async with open_supervisor(journal=journal) as supervisor:
        first = spec(say(calls=[call("send")]), parent=[task()])
        session = await supervisor.spawn(first, "p")
        await session.prompt("go")
        other = await begun(supervisor, [stall()], "beside")
        seconds: list[float] = []

        async def watch() -> None:
            async with other.monitor() as monitor:
                await monitor.wait()
                seconds.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await settle()
            began = trio.current_time()
            assert await parked_after(supervisor) == 1.5
        assert seconds == [began]
    assert await texts_after(journal, {"p": spec("found", parent=["well"])}) == {"p": ["go", "", "found", "well"]}
    events = await events_of(journal, "p")
    assert [(event.text, event.is_error) for event in events if isinstance(event, SubagentEnd)] == [("found", False)]
    assert len(send.calls) == 1


async def test_a_sub_agent_waits_for_a_call_of_its_parent() -> None:
    journal = TestJournal()
    send = slow("send", 2.0)
    asks = [call("task", {"agent": "finder", "description": "look", "prompt": "find it"}), call("send")]

    def spec(*child: Element, parent: Sequence[Element]) -> SessionSpec:
        return spec_of(ScriptedModel(parent), tools=[send], agents={"finder": agent(child)})

    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(stall(), parent=[say(calls=asks)]), "p")
        await session.prompt("go")
        await trio.sleep(0.5)
        assert len(supervisor.sessions()) == 2
        assert await parked_after(supervisor) == 1.5
    assert await texts_after(journal, {"p": spec("found", parent=["well"])}) == {
        "p": ["go", "", "found", "done after 2 s", "well"]
    }


async def test_nothing_starts_any_more() -> None:
    journal = TestJournal()
    spec = spec_of(ScriptedModel([say(calls=[call("send")])]), tools=[slow("send", 2.0)])
    async with open_supervisor(journal=journal) as supervisor:
        await (await supervisor.spawn(spec, "stored")).stop()
        session = await supervisor.spawn(spec, "s")
        await session.prompt("go")
        await trio.sleep(0.5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.drain, None)
            await settle()
            with pytest.raises(SupervisorClosed):
                await supervisor.spawn(spec)
            with pytest.raises(SupervisorClosed):
                await supervisor.resume("stored", spec)
            with pytest.raises(SupervisorClosed):
                await supervisor.fork("s", spec)
            assert [session_.id for session_ in supervisor.sessions()] == ["s"]


async def test_a_session_that_is_starting_is_parked_when_it_has_started() -> None:
    journal = TestJournal(claim=1.0)
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.spawn, spec_of(ScriptedModel()), "s")
        await trio.sleep(0.5)
        assert await parked_after(supervisor) == 0.5
    assert await texts_after(journal, {"s": spec_of(ScriptedModel())}) == {"s": []}


async def test_a_suspended_session_takes_the_result_of_its_call() -> None:
    journal = TestJournal()
    send = slow("send", 2.0)
    async with open_supervisor(journal=journal) as supervisor:
        session = await begun(supervisor, [say(calls=[call("send")])], tools=[send])
        await session.suspend()
        assert await parked_after(supervisor) == 1.5
    assert await texts_after(journal, {"s": spec_of(ScriptedModel(["sent"]), tools=[send])}) == {
        "s": ["go", "", "done after 2 s", "sent"]
    }


async def test_a_call_that_was_cut_too_often_ends_first() -> None:
    journal = TestJournal()
    look = lasting("look", 2.0, EffectClass.PURE)
    took: list[float] = []
    for script in ([say(calls=[call("look")])], [], []):
        async with open_supervisor(journal=journal) as supervisor:
            spec = spec_of(ScriptedModel(script), tools=[look])
            session = await supervisor.open("s", spec)
            if script:
                await session.prompt("go")
            await trio.sleep(0.5)
            took.append(await parked_after(supervisor))
    assert took == [0, 0, 1.5]
    assert not [event for event in await events_of(journal) if isinstance(event, ToolUnknown)]


async def test_a_call_that_an_abort_left_running_ends_first() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await begun(supervisor, [say(calls=[call("send")])], tools=[slow("send", 2.0)])
        await session.abort(kill_tools="none")
        assert await parked_after(supervisor) == 1.5


class Asks(Plugin[None]):
    """Runs the tool `send` before the first request."""

    def init(self, ctx: Context) -> None:
        return None

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Ask(RunTool("send")) if hook.answer is None else Continue(None)


async def test_a_call_that_a_plugin_makes_ends_first() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        await begun(supervisor, [stall()], tools=[slow("send", 2.0)], plugins=[Asks()])
        assert await parked_after(supervisor) == 1.5


@pytest.mark.parametrize("sends", [False, True])
async def test_a_crashed_session_comes_back_only_for_such_a_call(*, sends: bool) -> None:
    journal = TestJournal()
    send = slow("send", 2.0)
    async with open_supervisor(journal=journal) as supervisor:
        session = await begun(supervisor, [say(calls=[call("send")]) if sends else stall()], tools=[send])
        remaining = [BROKEN, None, BROKEN]  # the first of two commands crashes it once, and so does the second
        journal.failing = lambda record: (
            remaining.pop() if remaining and isinstance(record.arrival.input, LabelSent) else None
        )
        with pytest.RaisesGroup(SessionParked) if not sends else nullcontext():
            async with trio.open_nursery() as nursery:
                await session.label(["red"])
                nursery.start_soon(session.label, ["blue"])
                await settle()
                (view,) = supervisor.tree().children
                assert (view.state, remaining) == ("waiting", [])
                assert await parked_after(supervisor) == (1.5 if sends else 0)
    assert not [event for event in await events_of(journal) if isinstance(event, ToolUnknown)]


async def test_a_session_that_ends_meanwhile_is_not_waited_for() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await begun(supervisor, [say(calls=[call("send")])], tools=[slow("send", NEVER, timeout=NEVER)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(supervisor.drain, None)
            await trio.sleep(1)
            await session.stop()


async def test_without_a_journal_nothing_is_parked() -> None:
    async with open_supervisor() as supervisor:
        session = await begun(supervisor, ["fine"])
        await supervisor.drain(60)
        assert supervisor.sessions() == (session,)
        with pytest.raises(WrongType):
            await supervisor.drain(-1)

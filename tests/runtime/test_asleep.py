"""A session that sleeps does all that it did before."""

from collections.abc import Awaitable, Callable

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.core.vocabulary.inputs import SessionWoke
from agentrail.errors import JournalFull, SessionNotAlive
from agentrail.events import AgentEnd, Event, Gap, SessionWoken
from agentrail.models import JsonObject
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Ok, ToolContext, ok
from tests.kit import Element
from tests.runtime.families import agent
from tests.runtime.journals import TestJournal
from tests.runtime.tools import fake
from tests.runtime.world import until


def is_asleep(session: SessionHandle) -> bool:
    return session._session.is_asleep  # noqa: SLF001 - what it is about


async def asleep(supervisor: Supervisor, *script: Element, **spec: object) -> SessionHandle:
    """Return a session that has had one turn and sleeps; it has no subscriber."""
    session_spec = SessionSpec(model=ScriptedModel(["one", *script]), hibernate_after=10, **spec)  # type: ignore[arg-type]
    session = await supervisor.spawn(session_spec, "s")
    await session.ask("hi")
    await trio.sleep(25)
    assert is_asleep(session)
    return session


async def test_a_look_at_one_that_sleeps_does_not_wake_it() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"]), hibernate_after=10), "s")
        await session.ask("hi")
        old_status = session.status()
        await trio.sleep(25)
        assert session.status() == old_status
        assert (session.queued(), session.tasks()) == ((), ())
        assert repr(session) == "<SessionHandle 's' asleep>"
        assert supervisor.sessions() == (supervisor.session("s"),) == (session,)
        (child,) = supervisor.tree().children
        assert (child.state, child.phase, child.mailbox, child.suspended) == ("asleep", "idle", (0, 0, 0), False)
        assert is_asleep(session)


async def _asked(session: SessionHandle) -> None:
    assert (await session.ask("and?")).text == "two"


async def _prompted(session: SessionHandle) -> None:
    await session.prompt("and?", command="c")
    await session.prompt("and?", command="c")
    await until(lambda: session.status().turn == 2)


async def _labelled(session: SessionHandle) -> None:
    await session.label(add=["x"], title="new")
    assert session.inspect().labels == ("x",)


async def _woken(session: SessionHandle) -> None:
    await session.resume()
    assert [message.text for message in session.messages()] == ["hi", "one"]


async def _suspended(session: SessionHandle) -> None:
    await session.suspend()
    assert session._session.mailbox.suspended  # noqa: SLF001 - it must be the mailbox that is read
    await session.resume()
    await _asked(session)


async def _aborted(session: SessionHandle) -> None:
    await session.abort()
    await _asked(session)


async def _forked(session: SessionHandle) -> None:
    assert (await (await session.fork()).ask("and?")).text == "two"


async def _monitored(session: SessionHandle) -> None:
    async with session.monitor() as monitor, trio.open_nursery() as nursery:
        nursery.start_soon(session.stop, "done")
        assert (await monitor.wait()).reason == "done"


async def _stopped(session: SessionHandle) -> None:
    await session.stop("done")
    assert session.status().phase == "ended"
    with pytest.raises(SessionNotAlive):
        await session.ask("and?")


@pytest.mark.parametrize(
    "use", [_asked, _prompted, _labelled, _woken, _suspended, _aborted, _forked, _monitored, _stopped]
)
async def test_whatever_is_asked_of_it_is_done(use: Callable[[SessionHandle], Awaitable[None]]) -> None:
    async with open_supervisor() as supervisor:
        await use(await asleep(supervisor, "two"))


async def test_numbers_of_letters_go_on_so_that_crashes_on_one_message_are_told_apart() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"]), hibernate_after=10), "s")
        await session.ask("hi")
        number = session._session.mailbox.number  # noqa: SLF001 - it is in crash reports only
        await trio.sleep(25)
        assert is_asleep(session)
        await session.resume()
        assert session._session.mailbox.number > number > 1  # noqa: SLF001


async def test_subscribers_and_traces_hear_that_it_wakes() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one", "two"]), hibernate_after=10), "s")
        await session.ask("hi")
        events, trace = session.subscribe(types=[SessionWoken, AgentEnd]), session.trace()
        await trio.sleep(25)
        assert is_asleep(session)
        async with events, trace:
            with trio.fail_after(10):
                assert isinstance((await anext(aiter(trace))).input, SessionWoke)
                assert isinstance((await anext(aiter(events))).event, SessionWoken)
                await session.ask("and?")
                assert isinstance((await anext(aiter(events))).event, AgentEnd)


async def test_a_subscriber_stays_while_it_sleeps() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one", "two"]), hibernate_after=10), "s")
        async with session.subscribe(types=[AgentEnd]) as events:
            for _ in range(2):
                await session.ask("hi")
                assert isinstance((await anext(aiter(events))).event, AgentEnd)
                await trio.sleep(25)
                assert is_asleep(session)


async def never(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
    raise AssertionError


@pytest.mark.long
async def test_one_with_code_and_subscribers_and_timers_is_whole_when_it_wakes() -> None:
    script: list[Element] = [say(calls=[call("write")]), "fine", "one"]
    plugins = [HumanApproval(tools=frozenset({"write"}), timeout=100.0)]
    async with open_supervisor(journal=TestJournal(commit=1.0)) as supervisor:
        tools = [fake("write", never)]
        agents = {"finder": agent(["found"])}  # so it has ties
        spec = SessionSpec(model=ScriptedModel(script), tools=tools, plugins=plugins, agents=agents, hibernate_after=10)
        session = await supervisor.spawn(spec, "s")
        await session.attach_tools(fake("own", never))  # no specification has it, so the session keeps its code
        async with session.subscribe():
            assert (await session.ask("write")).held
            await trio.sleep(40)
            assert is_asleep(session)
            await until(lambda: supervisor.tree().children[0].state == "running")
            await trio.sleep(0.5)  # its waking is being journaled
            assert not is_asleep(session)
            await until(lambda: not session.status().turn_open)
            assert session.messages()[-1].text == "fine"
            await trio.sleep(40)
            assert is_asleep(session)
            assert (await session.ask("hi")).text == "one"
            assert not is_asleep(session)


async def test_a_call_that_waits_for_a_person_has_its_time_and_its_answer() -> None:
    async def write(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        return ok("written")

    script: list[Element] = [say(calls=[call("write")]), "fine", say(calls=[call("write")]), "late"]
    plugins = [HumanApproval(tools=frozenset({"write"}), timeout=100.0)]
    tools = [fake("write", write)]
    async with open_supervisor() as supervisor:
        spec = SessionSpec(model=ScriptedModel(script), tools=tools, plugins=plugins, hibernate_after=10)
        session = await supervisor.spawn(spec, "s")
        (held,) = (await session.ask("write")).held
        await trio.sleep(25)
        assert is_asleep(session)
        assert [waiting.id for waiting in session.status().held] == [held.id]
        await session.approve(held.id)
        await until(lambda: not session.status().turn_open)
        assert session.messages()[-1].text == "fine"
        assert (await session.ask("write")).held
        await trio.sleep(25)
        assert is_asleep(session)
        await trio.sleep(100)
        assert session.status().held == ()
        assert not session.status().turn_open


async def _first_gap(session: SessionHandle) -> Event:
    async with session.subscribe(since=0, types=[Gap]) as events:
        return (await anext(aiter(events))).event


async def test_deltas_of_the_time_before_are_a_gap_as_ever() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one two"]), hibernate_after=10), "s")
        await session.ask("hi")
        old = await _first_gap(session)
        await trio.sleep(25)
        assert is_asleep(session)
        assert await _first_gap(session) == old


async def test_an_abort_returns_while_the_journal_cannot_write() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await asleep(supervisor)
        journal.failing = lambda _: JournalFull("no space")
        with trio.fail_after(0.01):
            await session.abort()
        journal.failing = None
        await trio.sleep(2)
        await session.resume()

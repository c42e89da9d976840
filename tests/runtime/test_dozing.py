"""A session that was idle for a while has no task: all is in memory, and the next letter starts one."""

import math
from collections import Counter
from contextvars import ContextVar
from functools import partial

import pytest
import trio
import trio.testing

from agentrail.adapters.journals import memory
from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.adapters.journals.record_pages import Pages
from agentrail.app.supervisor import open_supervisor
from agentrail.core.vocabulary.commands import DONE, PromptSent
from agentrail.core.vocabulary.inputs import SleepDue
from agentrail.errors import CommitUnknown, SessionCrashed
from agentrail.ports.tool import ToolContext
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.inbox.dozing import AT_ONCE, DOZE_AFTER, DozeDue, Idlers
from agentrail.runtime.inbox.end_reason import TAKEN
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.shared.admission import Gate
from agentrail.runtime.shared.clock import Clock, Timers
from agentrail.testing import ScriptedModel, call, say
from agentrail.testing.scripted import Element
from agentrail.values.content import Text
from agentrail.values.events.life import SessionRestarted
from agentrail.values.json import JsonObject
from agentrail.values.tools import Ok, ok
from tests.runtime.journals import BROKEN, TestJournal
from tests.runtime.tools import fake
from tests.runtime.world import World, open_world, settle, spec_of

LONG = 3 * DOZE_AFTER

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def dozes(session: SessionHandle) -> bool:
    """Whether the session has no task, and a letter starts one."""
    return session._session.mailbox.alarm is not None  # noqa: SLF001 - nobody outside need know


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def test_an_idle_session_has_no_task_and_answers_as_ever(world: World) -> None:
    session = await world.spawn(["one", "two"], "s")
    assert (await session.ask("hi")).text == "one"
    awake = tasks()
    await trio.sleep(LONG)
    assert dozes(session)
    assert tasks() == awake - 1
    (child,) = world.supervisor.tree().children
    assert (child.state, child.restarts) == ("running", 0)
    assert len(session.messages()) == 2
    assert (await session.ask("and?")).text == "two"
    assert tasks() == awake
    assert not dozes(session)
    assert "SessionRestarted" not in world.heard(session).names


async def test_nothing_runs_once_all_doze(world: World) -> None:
    for _ in range(3):
        await world.spawn()
    timers = world.supervisor._sessions.shared.timers  # noqa: SLF001 - an idle process is not to be woken
    assert "idle sessions" in timers._live[""]  # noqa: SLF001
    await trio.sleep(LONG)
    assert "idle sessions" not in timers._live[""]  # noqa: SLF001 - there are leases to renew


async def test_a_session_at_work_may_doze_and_hears_of_its_end(world: World) -> None:
    async def slow(_args: JsonObject, _ctx: ToolContext) -> Ok:
        await trio.sleep(100)
        return ok("done")

    session = await world.spawn([say(calls=[call("slow")]), "fine"], "s", tools=[fake("slow", slow)])
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            assert (await session.ask("go")).text == "fine"

        nursery.start_soon(ask)
        await trio.sleep(LONG)
        assert dozes(session)


@pytest.mark.parametrize("end", ["abort", "stop"])
async def test_work_of_one_that_dozes_is_stopped(world: World, end: str) -> None:
    async def slow(_args: JsonObject, _ctx: ToolContext) -> Ok:
        await trio.sleep_forever()
        return ok("never")

    session = await world.spawn([say(calls=[call("slow")])], "s", tools=[fake("slow", slow)])
    await session.prompt("go")
    await trio.sleep(LONG)
    assert dozes(session)
    before = trio.current_time()
    await (session.abort() if end == "abort" else session.stop())
    assert trio.current_time() == before
    assert session.status().phase == ("idle" if end == "abort" else "ended")


@pytest.mark.parametrize("parks", [True, False])
async def test_a_supervisor_is_left_while_they_doze(parks: bool) -> None:
    async with open_world(parks=parks) as world:
        session = await world.spawn(["one"], "s")
        await session.ask("hi")
        await trio.sleep(LONG)
        assert dozes(session)
        before = trio.current_time()
    assert trio.current_time() == before
    assert world.heard(session).names[-1] == ("AgentEnd" if parks else "SessionEnded")


async def test_it_is_started_again_with_its_siblings() -> None:
    async def breaks(task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep(LONG)
        raise ConnectionError

    async with open_supervisor(strategy="one_for_all") as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "s")
        await supervisor.start_service(breaks, "feed", restart="transient")
        async with session.subscribe(types=[SessionRestarted]) as events:
            assert isinstance((await anext(aiter(events))).event, SessionRestarted)
        await supervisor.stop_child("feed")
        assert (await session.ask("hi")).text == "one"


async def test_a_crash_is_not_told_again_when_it_wakes(world: World) -> None:
    journal = world.journal
    assert isinstance(journal, TestJournal)
    session = await world.spawn(["one", "two"], "s")
    journal.fails_after = lambda record: BROKEN if record.number == 2 else None
    assert (await session.ask("hi")).text == "one"
    await trio.sleep(LONG)
    assert dozes(session)
    assert (await session.ask("and?")).text == "two"
    assert world.heard(session).names.count("SessionRestarted") == 1


async def test_after_an_uncertain_commit_no_letter_starts_one_that_dozes() -> None:
    journal = TestJournal()
    commits = 0

    async def body() -> None:
        nonlocal commits
        async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
            uncertain = await supervisor.spawn(spec_of(ScriptedModel([])), "uncertain")
            other = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "other")
            await trio.sleep(LONG)
            assert dozes(uncertain)
            assert dozes(other)
            journal.fails_after = lambda record: CommitUnknown("the cable") if record.session_id != "other" else None
            commits = journal.commits

            async def late() -> None:
                with pytest.raises(SessionCrashed):
                    await uncertain.prompt("go")
                with pytest.raises(Exception, match="other"):
                    await other.prompt("go")

            nursery.start_soon(late)
            await trio.sleep(100)

    with pytest.raises(CommitUnknown):
        await body()
    assert [record.session_id for record in await journal.read("other", 0, 9)] == ["other"]


async def test_tools_see_the_context_of_the_spawn_whoever_woke_the_session(world: World) -> None:
    seen: list[str] = []

    async def look(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        seen.append(WHO.get())
        return ok("seen")

    script: list[Element] = [say(calls=[call("look")]), "fine"] * 3
    WHO.set("spawned")
    session = await world.spawn(script, "s", tools=[fake("look", look)])
    WHO.set("asks")
    await session.ask("go")
    for _ in range(2):
        await trio.sleep(LONG)
        assert dozes(session)
        await session.ask("go")
    assert seen == ["spawned"] * 3


async def test_a_letter_in_the_pass_in_which_it_is_to_doze_is_read() -> None:
    mailbox = Mailbox("s", Gate(math.inf))
    read: list[Letter] = []

    async def reader() -> None:
        try:
            while True:
                read.append(await mailbox.receive())
        except DozeDue:
            return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader)
        await settle()
        mailbox.doze()
        mailbox.post(SleepDue())
        await settle()
        assert len(read) == 1
        assert len(nursery.child_tasks) == 1
        mailbox.doze()


@pytest.mark.parametrize("width", [1, 8])
async def test_those_that_doze_are_woken_by_prompts_as_the_gate_admits_them(width: int) -> None:
    gate, rung = Gate(width), list[int]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run)
        await settle()
        for number in range(20):
            mailbox = Mailbox(f"{number}", gate)
            mailbox.alarm = partial(rung.append, number)
            mailbox.post_user_nowait(Letter(PromptSent((Text("go"),))))
        assert rung == list(range(width))
        await settle()
        assert rung == list(range(20))
        nursery.cancel_scope.cancel()


async def test_a_closed_mailbox_rings_no_more() -> None:
    gate, rung = Gate(1), list[int]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run)
        await settle()
        gate.enter(lambda: None)
        mailbox = Mailbox("s", gate)
        mailbox.alarm = partial(rung.append, 1)
        mailbox.post_user_nowait(Letter(PromptSent((Text("go"),))))
        mailbox.close(DONE)
        await settle()
        assert rung == []
        nursery.cancel_scope.cancel()


async def test_one_that_is_taken_over_in_the_pass_in_which_it_is_to_doze_is_gone() -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel([])), "s")
        sessions = supervisor._sessions  # noqa: SLF001
        async with session.monitor() as monitor:
            await settle()
            session._session.mailbox.doze()  # noqa: SLF001
            sessions._lost(sessions.shared.leases._claims["s"])  # noqa: SLF001 - as a renewal that has failed
            assert (await monitor.wait()).reason == TAKEN
        assert supervisor.sessions() == ()


class Dozes:
    """Counts in which pass it was to doze."""

    def __init__(self, times: list[float]) -> None:
        self.times = times

    def doze(self) -> None:
        self.times.append(trio.current_time())


async def test_a_journal_in_memory_is_tidied_up_while_a_session_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LOOSE", 8)
    written: list[float] = []
    put_away = Pages.put_away

    def noted(pages: Pages, count: int) -> int:
        written.append(trio.current_time())
        return put_away(pages, count)

    monkeypatch.setattr(Pages, "put_away", noted)
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel(["yes"] * 31)), "s")
        for turn in range(30):
            await session.ask(f"prompt {turn}")
        assert written == []
        assert journal.is_crowded
        await trio.sleep(LONG)
        assert dozes(session)
        assert not journal.is_crowded
        assert len(set(written)) == len(written) > 1
        assert (await session.ask("and now?")).text == "yes"
        assert len(session.messages()) == 62
        assert [record.number for record in await journal.read("s")][:60] == [*range(1, 61)]


@pytest.mark.parametrize("count", [AT_ONCE - 1, AT_ONCE, AT_ONCE + 1])
async def test_however_many_end_in_one_pass_each_ends_once(count: int) -> None:
    timers, times = Timers(Clock()), list[float]()
    idlers = Idlers(timers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        for _ in range(count):
            idlers.note(Dozes(times))
        await trio.sleep(LONG)
        assert len(times) == count
        assert len(set(times)) == (2 if count > AT_ONCE else 1)
        assert timers.size == 0
        nursery.cancel_scope.cancel()


async def test_few_tasks_end_in_one_pass_and_none_that_was_busy_meanwhile() -> None:
    timers, times = Timers(Clock()), list[float]()
    idlers, busy = Idlers(timers), list[float]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        for _ in range(3 * AT_ONCE):
            idlers.note(Dozes(times))
        at_work, gone = Dozes(busy), Dozes(busy)
        idlers.note(gone)
        idlers.forget(gone)
        for _ in range(10):
            idlers.note(at_work)
            await trio.sleep(DOZE_AFTER / 2)
        assert sorted(Counter(times).values()) == [AT_ONCE] * 3
        assert busy == []
        await trio.sleep(LONG)
        assert len(busy) == 1
        assert timers.size == 0
        nursery.cancel_scope.cancel()

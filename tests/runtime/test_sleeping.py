"""Idle sessions that free their memory: their handles stay valid, and callers notice no difference."""

import pytest
import trio

from agentrail import Ask, Context, Continue, Plugin, SessionHandle, SessionSpec, open_supervisor
from agentrail.core.vocabulary.inputs import SessionWoke
from agentrail.errors import SessionAsleep, SessionCrashed
from agentrail.events import (
    AgentEnd,
    ApprovalResolved,
    Envelope,
    SessionEnded,
    SessionHibernated,
    SessionQuarantined,
    SessionWoken,
)
from agentrail.journals import Claim, MemoryJournal, Record, Snapshot
from agentrail.models import EmitChunk, Json, JsonObject, ModelRequest, Response
from agentrail.plugins import BeforePrompt, CallService, HumanApproval
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.tools import Ok, ToolContext, ok
from tests.kit import Element, StopSent
from tests.runtime.journals import BROKEN, TestJournal
from tests.runtime.poison import crash_this_step
from tests.runtime.test_resuming import Turns
from tests.runtime.test_sources import Scripted, offering
from tests.runtime.tools import fake, slow
from tests.runtime.world import World, check_records, open_world, settle, until


def sleeps(session: SessionHandle) -> bool:
    return session._session.is_asleep  # noqa: SLF001 - what it is about


async def fall_asleep(session: SessionHandle) -> None:
    await trio.sleep(25)
    assert sleeps(session)


async def test_an_idle_session_sleeps_and_the_next_message_wakes_it(world: World) -> None:
    session = await world.spawn(["one", "two"], "s", plugins=[Turns()], hibernate_after=10)
    await session.ask("hi")
    assert not sleeps(session)
    await fall_asleep(session)
    assert (await session.ask("and?")).text == "two"
    assert [message.text for message in session.messages()] == ["hi", "one", "and?", "two"]
    assert session.inspect().plugin_states == (2,)


async def test_crashes_of_several_wakings_are_not_those_of_one_message(world: World) -> None:
    session = await world.spawn(["fine"], "s", hibernate_after=10)
    for _ in range(4):
        await fall_asleep(session)
        crash_this_step()
        await session.resume()
    assert (await session.ask("hi")).text == "fine"
    assert [report.input for report in world.supervisor.crashes()] == ["SessionWoke 0"] * 4


class SlowToKeep(TestJournal):
    """A journal that takes a second to store a snapshot."""

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        await trio.sleep(1)
        await super().keep(claim, snapshot)


async def test_a_message_that_comes_while_it_falls_asleep_wakes_it_again() -> None:
    async with open_world(SlowToKeep()) as world:
        session = await world.spawn(["one", "two"], "s", hibernate_after=10)
        async with session.subscribe(types=[SessionHibernated]) as events:
            await session.ask("hi")
            async for _ in events:
                break
        with trio.fail_after(60):
            assert (await session.ask("and?")).text == "two"


async def test_one_that_is_stopped_while_it_falls_asleep_ends_as_any_other() -> None:
    async with open_world(SlowToKeep()) as world:
        session = await world.spawn([], "s", hibernate_after=10)
        async with session.subscribe(types=[SessionHibernated]) as events:
            await anext(aiter(events))
    assert world.heard(session).names[-3:] == ["SessionHibernated", "SessionWoken", "SessionEnded"]
    assert session.status().phase == "ended"


async def test_it_is_told_to_those_who_listen_and_they_miss_nothing(world: World) -> None:
    session = await world.spawn(["one", "two"], "s", hibernate_after=10)
    kinds: list[type] = []
    async with session.subscribe(since=0) as events:
        await session.ask("hi")
        await fall_asleep(session)
        await session.ask("and?")
        async for envelope in events:
            if envelope.n == 0:
                kinds.append(type(envelope.event))
                if kinds.count(AgentEnd) == 2:
                    break
    assert kinds.count(SessionHibernated) == kinds.count(SessionWoken) == 1
    assert kinds.index(SessionHibernated) + 1 == kinds.index(SessionWoken)


async def test_a_session_that_sleeps_has_no_task_and_shows_its_state(world: World) -> None:
    session = await world.spawn(["one"], "s", hibernate_after=10)
    await session.ask("hi")
    old_tasks_living = trio.lowlevel.current_statistics().tasks_living
    usage = session.status().usage
    assert [child.memory for child in world.supervisor.tree().children] == [len("hi") + len("one")]
    await fall_asleep(session)
    assert trio.lowlevel.current_statistics().tasks_living == old_tasks_living - 1
    assert session.id not in world.supervisor._sessions.shared.timers._live  # noqa: SLF001 - it costs no timer either
    assert (session.status().phase, session.status().usage) == ("idle", usage)
    (child,) = world.supervisor.tree().children
    assert (child.state, child.memory) == ("asleep", 0)
    with pytest.raises(SessionAsleep, match="wake"):
        session.messages()
    await session.resume()
    assert len(session.messages()) == 2


async def test_what_is_held_sleeps_and_its_time_goes_on(world: World) -> None:
    async def write(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        return ok("written")

    script: list[Element] = [say(calls=[call("write")]), "fine"]
    guard = HumanApproval(tools=frozenset({"write"}), timeout=100.0)
    session = await world.spawn(script, "s", tools=[fake("write", write)], plugins=[guard], hibernate_after=10)
    (held,) = (await session.ask("write")).held
    await fall_asleep(session)
    assert [waiting.id for waiting in session.status().held] == [held.id]
    await trio.sleep(80)
    await until(lambda: not sleeps(session))
    async with session.subscribe(since=0, types=[ApprovalResolved]) as events:
        resolved = await anext(aiter(events))
    assert isinstance(resolved.event, ApprovalResolved)
    assert resolved.event.status == "timeout"


async def test_an_approval_wakes_it_and_the_call_runs(world: World) -> None:
    async def write(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        return ok("written")

    script: list[Element] = [say(calls=[call("write")]), "fine"]
    guard = HumanApproval(tools=frozenset({"write"}), timeout=None)
    session = await world.spawn(script, "s", tools=[fake("write", write)], plugins=[guard], hibernate_after=10)
    (held,) = (await session.ask("write")).held
    await fall_asleep(session)
    await session.approve(held.id)
    await until(lambda: session.status().turn_open is False)
    assert [message.text for message in session.messages()][-2:] == ["written", "fine"]


async def test_one_with_a_source_of_tools_stays_awake(world: World) -> None:
    session = await world.spawn([], "s", tools=[Scripted("one", [offering("a")])], hibernate_after=10)
    await trio.sleep(100)
    assert not sleeps(session)


class Echoing(Plugin):
    """Asks a service about each prompt."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Continue() if hook.answer is not None else Ask(CallService("echo"))


async def test_one_that_has_asked_a_service_sleeps_as_any_other(world: World) -> None:
    async def echo(payload: Json) -> Json:
        await trio.sleep(1)
        return payload

    services = {"echo": echo}
    session = await world.spawn(["one", "two"], "s", plugins=[Echoing()], services=services, hibernate_after=10)
    await session.ask("hi")
    await fall_asleep(session)
    assert (await session.ask("and?")).text == "two"


async def test_nothing_sleeps_that_has_something_to_do(world: World) -> None:
    streaming = await world.spawn([stall(after=1)], "streaming", hibernate_after=1, stall_timeout=1000.0)
    await streaming.prompt("hi")
    lingering = await world.spawn(
        [say(calls=[call("slow")])], "lingering", tools=[slow(seconds=50, immune=True)], hibernate_after=1
    )
    await lingering.prompt("hi")
    await trio.sleep(1)
    await lingering.abort()
    suspended = await world.spawn([], "suspended", hibernate_after=1)
    await suspended.suspend()
    await trio.sleep(20)
    assert not any(map(sleeps, (streaming, lingering, suspended)))
    await suspended.resume()


class SlowToLeave:
    """A model whose first request never answers, and takes two minutes to end when it is cancelled."""

    name = "slow to leave"
    script = ScriptedModel([stall(), "ok"])

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        try:
            return await self.script.stream(request, emit)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await trio.sleep(120)
            raise


async def test_a_request_that_was_cut_and_replaced_keeps_it_awake_until_it_has_closed(world: World) -> None:
    session = await world.spawn(SlowToLeave(), "s", hibernate_after=10)
    assert (await session.ask("hi")).text == "ok"
    await trio.sleep(60)
    assert not sleeps(session)
    await trio.sleep(300)
    assert sleeps(session)
    names = world.heard(session).names
    assert names.count("SessionHibernated") == 1
    assert "SessionWoken" not in names
    await session.resume()


async def test_what_was_attached_while_it_lived_is_still_there(world: World) -> None:
    async def look(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        return ok("seen")

    session = await world.spawn([say(calls=[call("look")]), "fine"], "s", hibernate_after=10)
    await session.attach_tools(fake("look", look))
    await session.attach_plugin(Turns())
    await fall_asleep(session)
    assert (await session.ask("look")).text == "fine"
    assert session.inspect().plugin_states == (1,)


async def test_a_change_wakes_it(world: World) -> None:
    session = await world.spawn(["one"], "s", plugins=[Turns()], hibernate_after=10)
    await fall_asleep(session)
    await session.switch_model("demo")
    assert session.inspect().model == "demo"
    await fall_asleep(session)
    await session.update_plugin(Turns, step=3)


async def test_a_model_that_it_was_given_meanwhile_is_still_there(world: World) -> None:
    session = await world.spawn(["one"], "s", hibernate_after=10)
    await fall_asleep(session)
    await session.switch_model(ScriptedModel(["two"], name="other"))
    await fall_asleep(session)
    assert (await session.ask("hi")).text == "two"


async def test_an_abort_and_a_stop_reach_it(world: World) -> None:
    session = await world.spawn(["one"], "s", hibernate_after=10)
    await fall_asleep(session)
    await session.abort()
    await fall_asleep(session)
    await session.stop("enough")
    await until(lambda: not world.supervisor.sessions())


async def test_a_supervisor_that_ends_stops_those_that_sleep_too() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo", hibernate_after=10))
        await fall_asleep(session)
        async with session.subscribe() as events:
            await supervisor._sessions.close()  # noqa: SLF001 - to hear what comes of it
            heard = [type(envelope.event) async for envelope in events]
    assert heard == [SessionWoken, SessionEnded]
    assert session.status().phase == "ended"


async def test_it_is_brought_up_once_to_be_stopped(world: World) -> None:
    session = await world.spawn(["one"], "s", hibernate_after=10)
    await fall_asleep(session)
    sessions = world.supervisor._sessions  # noqa: SLF001 - to hear what comes of it
    await sessions.root.stop(sessions.tree.sessions["s"])
    value = [type(record.arrival.input) for record in await world.journal.read("s", 0, 1000)]
    assert value[-2:] == [SessionWoke, StopSent]
    assert value.count(SessionWoke) == 1
    assert world.supervisor.crashes() == ()


class Broken(TestJournal):
    """A journal that cannot store snapshots."""

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        raise ConnectionError(snapshot.session_id)


async def test_one_whose_snapshot_cannot_be_kept_sleeps_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    async with open_world(Broken()) as world:
        session = await world.spawn(["one"], "s", hibernate_after=10)
        await fall_asleep(session)
        assert "could not keep a snapshot" in caplog.text
        assert (await session.ask("hi")).text == "one"
        assert world.supervisor.crashes() == ()


async def test_one_that_is_started_again_while_it_falls_asleep_is_awake_again() -> None:
    async def breaks(task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep(10.5)
        raise ConnectionError

    journal = SlowToKeep()
    async with open_supervisor(journal=journal, strategy="one_for_all") as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"]), hibernate_after=10), "s")
        await supervisor.start_service(breaks, "feed", restart="transient")
        await trio.sleep(10.75)
        assert not session.inspect().asleep
        await supervisor.stop_child("feed")
        await fall_asleep(session)
        assert (await session.ask("hi")).text == "one"
        await check_records(journal, session)


async def test_a_temporary_one_that_is_woken_while_its_siblings_are_stopped_ends_with_them() -> None:
    async def breaks(task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep(60)
        raise ConnectionError

    async def ends_late(task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)

    async with open_supervisor(strategy="one_for_all") as supervisor:
        begun = trio.current_time()
        await supervisor.start_service(ends_late, "late")
        spec = SessionSpec(model=ScriptedModel([stall(after=1)]), hibernate_after=10)
        session = await supervisor.spawn(spec, "s", restart="temporary")
        child = supervisor._node.children["s"]  # noqa: SLF001 - it is in no tree any more when it is to have ended
        await supervisor.start_service(breaks, "feed", restart="transient")
        await fall_asleep(session)
        await trio.sleep_until(begun + 61)  # `late` is being stopped; the session was passed over
        await session.prompt("go on")
        async with session.monitor() as down:
            await down.wait()
        assert supervisor.sessions() == ()
        await settle()
        lives = child.has_task()
        child.cancel()  # or the supervisor could not be left
        assert not lives
        await supervisor.stop_child("feed")


async def test_one_that_crashes_while_it_wakes_goes_on() -> None:
    def late(record: Record) -> Exception | None:
        return BROKEN if isinstance(record.arrival.input, SessionWoke) else None

    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(["one"], "s", hibernate_after=10)
        await fall_asleep(session)
        journal.fails_after = late  # the record is written all the same
        assert (await session.ask("hi")).text == "one"
        assert len(world.supervisor.crashes()) == 1


class Listening(Plugin[int]):
    """Counts events."""

    def init(self, ctx: Context) -> int:
        return 0

    def on_event(self, event: Envelope, state: int, ctx: Context) -> int:
        return state + 1


async def test_one_that_cannot_be_woken_is_set_aside_and_the_journal_knows() -> None:
    def broken() -> SessionSpec:
        if built:
            raise FileNotFoundError(2, "no such file")
        built.append("once")
        return spec

    built: list[str] = []
    journal = TestJournal(inner=lambda: MemoryJournal(encode=True))
    spec = SessionSpec(model=ScriptedModel(["one"]), name="n", hibernate_after=10, plugins=[Listening()])
    async with open_supervisor(journal=journal) as supervisor:
        await (await supervisor.spawn(spec, "s")).ask("hi")
    async with open_supervisor(journal=journal, specs={"n": broken}) as supervisor:
        session = await supervisor.resume("s")
        await fall_asleep(session)
        with pytest.raises(SessionCrashed, match="no such file"):
            await session.ask("are you there?")
        assert [message.text for message in session.messages()] == ["hi", "one"]
        assert [report.done for report in supervisor.crashes()] == [*["restarted"] * 3, "set_aside"]
        records = await journal.read("s")
        assert [envelope.event for envelope in records[-1].events] == [
            SessionQuarantined("FileNotFoundError: [Errno 2] no such file")
        ]
        await check_records(journal, session)
    async with open_supervisor(journal=journal) as supervisor:
        with pytest.raises(SessionCrashed, match="no such file"):
            await supervisor.resume("s", spec)


async def test_one_that_sleeps_is_parked_as_it_is_and_comes_back() -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel(["one", "two"]), hibernate_after=10)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("hi")
        await fall_asleep(session)
        head = (await journal.sessions())[0].head
    assert (await journal.sessions())[0].head == head
    async with open_supervisor(journal=journal) as supervisor:
        again = await supervisor.resume("s", spec)
        assert (await again.ask("and?")).text == "two"

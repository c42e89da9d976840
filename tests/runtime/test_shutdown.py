"""How supervisors end all that they have started, in each way in which they can end."""

import contextlib
from typing import NoReturn

import pytest
import trio
import trio.testing

from agentrail import Context, Continue, Plugin, SessionDown, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.errors import (
    SessionNotAlive,
    SupervisorClosed,
    TurnAborted,
)
from agentrail.events import AgentAbort, SessionEnded
from agentrail.models import EmitChunk, JsonObject, ModelRequest, Response
from agentrail.plugins import SessionEnd
from agentrail.runtime.supervision.sessions import STRAGGLER_AFTER
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.tools import ToolContext, ToolResult
from tests.runtime.journals import TestJournal
from tests.runtime.tools import fake, quick, shielded, slow
from tests.runtime.world import World, check_records, open_world, settle, spec_of, stop_at_the_end


def tasks() -> int:
    """Return how many tasks there are."""
    statistics = trio.lowlevel.current_statistics()
    return statistics.tasks_living


async def test_sessions_are_stopped_the_youngest_first() -> None:
    downs: list[str] = []

    async def watch(session: SessionHandle) -> None:
        async with session.monitor() as monitor:
            downs.append((await monitor.wait()).session_id)

    async with trio.open_nursery() as nursery, open_world() as world:
        for name in ("first", "second", "third"):
            nursery.start_soon(watch, await world.spawn([stall()], name))
        await settle()
        await world.supervisor.session("second").prompt("go")
    assert downs == ["third", "second", "first"]


async def test_each_has_its_own_time_limit_and_monitors_see_it() -> None:
    journal = TestJournal()
    downs: dict[str, tuple[str, float]] = {}

    async def watch(session: SessionHandle) -> None:
        async with session.monitor() as monitor:
            down = await monitor.wait()
            downs[down.session_id] = down.reason, trio.current_time() - start

    async with trio.open_nursery() as nursery, open_world(journal) as world:
        for name, limit in (("short", 1.0), ("long", 3.0)):
            nursery.start_soon(watch, await world.spawn([stall()], name, shutdown=limit))
        await settle()
        journal.commit = 1000.0
        start = trio.current_time()
    reason = "cancelled: it did not stop in time"
    assert {name: (why, round(time, 3)) for name, (why, time) in downs.items()} == {
        "long": (reason, 3.0),
        "short": (reason, 4.0),
    }


async def test_nothing_is_left_behind() -> None:
    await settle()
    old_tasks = tasks()
    async with open_world() as world:
        for number in range(5):
            session = await world.spawn(
                [say(calls=[call("slow")]), stall(after=1)], tools=[slow(immune=number % 2 == 0)]
            )
            await session.prompt("go")
        await trio.sleep(2)
        assert tasks() > old_tasks
    await settle()
    assert tasks() == old_tasks


async def test_a_tool_that_ignores_its_end_is_named_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async with open_world() as world:
        session = await world.spawn([say(calls=[call("shielded")])], tools=[shielded(seconds=10)])
        await session.prompt("go")
        await trio.sleep(1)
        start = trio.current_time()
    assert trio.current_time() - start == pytest.approx(9.0, abs=0.1)
    assert any("shielded" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(("longer", "named"), [(0.9, []), (1.1, ["shielded"])])
async def test_a_tool_is_named_if_it_takes_a_second_to_end(
    longer: float, named: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_world() as world:
        session = await world.spawn([say(calls=[call("shielded")])], tools=[shielded(seconds=1 + longer)])
        await session.prompt("go")
        await trio.sleep(1)
    beginning = "tools that ignore their cancellation are waited for: "
    text = [record.getMessage() for record in caplog.records]
    assert [line.removeprefix(beginning).partition(" ")[0] for line in text if line.startswith(beginning)] == named


async def test_a_tool_that_has_ended_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async with open_world() as world:
        session = await world.spawn([say(calls=[call("quick")]), "fine"], tools=[quick()])
        await session.ask("go")
        start = trio.current_time()
    assert trio.current_time() == start
    assert caplog.records == []


async def tidy(late: BaseException) -> NoReturn:
    """Wait to be cancelled, take long to clean up, and raise *late* beside another cancelled task."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(STRAGGLER_AFTER + 5)
            raise late


class TidyModel:
    """Never answers, and takes long to end."""

    name = "tidy"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        await tidy(ValueError("I was busy"))


@pytest.mark.parametrize("late", [ValueError("I was busy"), SystemExit(3), GeneratorExit()])
async def test_what_a_tool_raises_long_after_it_was_cancelled_stays_with_it(late: BaseException) -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await tidy(late)

    async with open_world() as world:
        session = await world.spawn([say(calls=[call("tidy")])], tools=[fake("tidy", body)])
        await session.prompt("go")
        await trio.sleep(1)


async def test_what_a_model_raises_long_after_it_was_cancelled_stays_with_it() -> None:
    async with open_world() as world:
        session = await world.spawn([stall()], tools=[shielded(seconds=20)])
        slow_to_end = await world.spawn(TidyModel())
        await slow_to_end.prompt("go")
        await session.prompt("go")
        await trio.sleep(1)


async def test_the_end_aborts_what_is_going_on_with_its_reason() -> None:
    async with open_world() as world:
        session = await world.spawn([stall(after=1)])
        await session.prompt("go")
        await trio.sleep(1)
    heard = world.heard(session)
    assert heard.only(AgentAbort).kind == "stopped"
    assert heard.names[-1] == "SessionEnded"
    assert heard.only(SessionEnded).reason == "the supervisor stopped"


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
async def test_an_exception_of_the_body_comes_out_as_it_is(error: type[BaseException]) -> None:
    handles: list[SessionHandle] = []

    async def body() -> None:
        async with open_supervisor() as supervisor:
            handles.append(await supervisor.spawn(SessionSpec(model="demo")))
            raise error from cause

    cause = KeyError("why")
    with pytest.raises(error) as raised:
        await body()
    assert raised.value.__cause__ is cause
    (session,) = handles
    with pytest.raises(SessionNotAlive):
        await session.prompt("hi")


async def test_a_group_of_the_body_comes_out_as_it_is() -> None:
    group = ExceptionGroup("of the user", [ValueError("a"), KeyError("b")])
    with pytest.raises(ExceptionGroup) as raised:
        async with open_supervisor():
            raise group
    assert (raised.value.message, raised.value.exceptions) == (group.message, group.exceptions)


async def test_the_end_of_the_surrounding_scope_stops_everything_in_order() -> None:
    journal = TestJournal(commit=0.1)
    downs: list[SessionDown] = []
    handles: list[SessionHandle] = []

    async def watch(session: SessionHandle) -> None:
        async with session.monitor() as monitor:
            downs.append(await monitor.wait())

    await settle()
    old_tasks = tasks()
    async with trio.open_nursery() as nursery:
        with trio.move_on_after(5) as scope:
            async with open_supervisor(journal=journal) as supervisor:
                stop_at_the_end(supervisor)
                for number in range(3):
                    model = ScriptedModel([stall(after=1)])
                    session = await supervisor.spawn(spec_of(model), str(number))
                    await session.prompt("go")
                    nursery.start_soon(watch, session)
                    handles.append(session)
                await trio.sleep_forever()
    assert scope.cancelled_caught
    assert downs == [SessionDown(str(number), "the supervisor stopped") for number in (2, 1, 0)]
    await settle()
    assert tasks() == old_tasks
    for handle in handles:
        await check_records(journal, handle)
        records = await journal.read(handle.id)
        names = [type(envelope.event).__name__ for record in records for envelope in record.events]
        assert "Retry" not in names, "a stream that was cancelled from outside is no transient error"
        assert names[-2:] == ["AgentAbort", "SessionEnded"]


async def test_if_the_roof_comes_down_the_body_ends_and_the_sessions_are_stopped() -> None:
    def bug() -> None:
        raise ZeroDivisionError

    downs: list[SessionDown] = []

    async def watch(session: SessionHandle) -> None:
        async with session.monitor() as monitor:
            downs.append(await monitor.wait())

    async def body() -> None:
        async with open_supervisor() as supervisor:
            nursery.start_soon(watch, await supervisor.spawn(spec_of(ScriptedModel([stall()])), "mine"))
            shared = supervisor._sessions.shared  # noqa: SLF001 - only a bug of ours can do this
            shared.timers.set(("mine", "bug"), trio.current_time() + 1, bug)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        with trio.fail_after(10), pytest.raises(ZeroDivisionError):
            await body()
    assert downs == [SessionDown("mine", "the supervisor stopped")]


async def test_a_body_that_spawns_while_it_ends_is_refused() -> None:
    refused: list[type[Exception]] = []

    async def spawn_late(supervisor: Supervisor) -> None:
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep(1.5)
        try:
            await supervisor.spawn(spec_of("demo"), "late")
        except SupervisorClosed as error:
            refused.append(type(error))

    async with trio.open_nursery() as nursery, open_supervisor(journal=TestJournal(commit=2.0)) as supervisor:
        stop_at_the_end(supervisor)
        nursery.start_soon(spawn_late, supervisor)
        await supervisor.spawn(spec_of("demo"), "early")
        nursery.start_soon(spawn_late, supervisor)
    with pytest.raises(SupervisorClosed):
        await supervisor.spawn(spec_of("demo"))
    assert refused == [SupervisorClosed]


async def test_a_session_that_is_being_claimed_while_the_supervisor_ends_does_not_start() -> None:
    journal = TestJournal(claim=1.0)
    refused: list[Exception] = []

    async def spawn(supervisor: Supervisor) -> None:
        try:
            await supervisor.spawn(spec_of("demo"), "late")
        except SupervisorClosed as error:
            refused.append(error)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery, open_supervisor(journal=journal) as supervisor:
            nursery.start_soon(spawn, supervisor)
            await trio.sleep(0.5)
    assert len(refused) == 1


async def test_calls_behind_the_end_are_told_so() -> None:
    async with open_world() as world:
        session = await world.spawn([stall()])
        outcomes: list[str] = []

        async def ask() -> None:
            try:
                await session.ask("go")
            except (TurnAborted, SessionNotAlive) as error:
                outcomes.append(type(error).__name__)

        world.nursery.start_soon(ask)
        await settle()
    assert outcomes == ["TurnAborted"]
    with pytest.raises(SessionNotAlive, match="the supervisor stopped"):
        await session.prompt("hi")
    with pytest.raises(SessionNotAlive):
        await session.abort()
    assert session.status().phase == "ended"
    async with session.subscribe(since=0) as events:
        assert [type(envelope.event) async for envelope in events][-1] is SessionEnded


class Last(Plugin):
    def session_end(self, hook: SessionEnd, state: None, ctx: Context) -> Continue[None]:
        return Continue(emits=())


async def test_stopping_is_heard_by_plugins_and_monitors(world: World) -> None:
    session = await world.spawn([stall()], plugins=[Last()])
    await session.prompt("go")
    async with session.monitor() as monitor:
        await session.stop("that will do")
        assert (await monitor.wait()).reason == "that will do"
    with pytest.raises(SessionNotAlive, match="that will do"):
        await session.prompt("hi")


async def test_a_stop_without_a_reason_has_one(world: World) -> None:
    session = await world.spawn(["fine"], "s")
    async with session.monitor() as monitor:
        await session.stop("")
        assert (await monitor.wait()).reason == "stopped"
    with pytest.raises(SessionNotAlive, match="stopped"):
        await session.ask("go")


async def test_a_supervisor_that_cannot_be_put_together_raises_instead_of_waiting() -> None:
    with trio.fail_after(10), pytest.raises(TypeError, match="seed"):
        async with open_supervisor(seed=[1]):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            pytest.fail("it cannot be entered")


def test_a_run_that_ends_stops_the_sessions_of_a_task_of_the_system_one_after_the_other() -> None:
    """Trio cancels all tasks of the system at once: those under a supervisor hear of it from that, in its order."""
    cancelled: dict[str, float] = {}

    async def notes(_args: JsonObject, ctx: ToolContext) -> ToolResult:
        try:
            await trio.sleep_forever()
        finally:
            cancelled[ctx.session_id] = trio.current_time()

    async def serves(ready: trio.Event) -> None:
        async with open_supervisor(journal=TestJournal(commit=1)) as supervisor:
            stop_at_the_end(supervisor)
            for name in ("older", "younger"):
                model = ScriptedModel([say(calls=[call("notes")])])
                session = await supervisor.spawn(spec_of(model, tools=[fake("notes", notes)]), name)
                await session.prompt("go")
            await trio.sleep(10)
            ready.set()
            await trio.sleep_forever()

    async def main() -> float:
        ready = trio.Event()
        trio.lowlevel.spawn_system_task(serves, ready)
        await ready.wait()
        return trio.current_time()

    ended = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert cancelled["younger"] == ended
    assert cancelled["older"] >= ended + 1

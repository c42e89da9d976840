"""A supervisor ends within its time, even if tasks under it do not; those are named, with their place in the code."""

import random
import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import trio
from trio._core import _run as scheduler

from agentrail import Ask, Context, Continue, Plugin, SessionHandle, Supervisor, open_supervisor
from agentrail.app.shutdown_time import ending
from agentrail.errors import NotReady, SessionNotAlive, SessionParked, SupervisorClosed, SupervisorStuck, WrongType
from agentrail.journals import NO_LEASE, Claim, Lease, Record, SqliteJournal
from agentrail.models import EmitChunk, Json, JsonObject, ModelRequest, Response
from agentrail.plugins import BeforePrompt, CallService
from agentrail.ports.tool import Offer
from agentrail.runtime.diagnosis.stacks import ROOT_TASK, tasks_in
from agentrail.runtime.supervision.root_nursery import LEFT_AFTER
from agentrail.runtime.supervision.sessions import STRAGGLER_AFTER
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.tools import ToolContext, ToolResult, ok
from tests.kit import Failpoint, watching
from tests.patience import PATIENCE
from tests.runtime.journals import AwakeJournal, Dozing, TestJournal
from tests.runtime.tools import fake
from tests.runtime.world import settle, spec_of, stop_at_the_end

WITHIN = 5.0
HERE = f"{__file__}:"


async def deaf() -> None:
    """Ignore cancellation, for longer than any test waits."""
    with trio.CancelScope(shield=True):
        await trio.sleep(1000)


async def left_and_gone(supervised: Callable[[], Awaitable[None]]) -> tuple[str, ...]:
    """Return what is stuck when a supervisor is left; check that nothing remains once that has ended."""
    await settle()
    old_tasks_living = trio.lowlevel.current_statistics().tasks_living
    with pytest.raises(SupervisorStuck) as stuck:
        await supervised()
    await trio.sleep(2000)
    await settle()
    assert trio.lowlevel.current_statistics().tasks_living == old_tasks_living
    return stuck.value.stuck


class DeafModel:
    name = "deaf"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        await deaf()
        return await trio.sleep_forever()


class DeafSource:
    name = "far"

    def check(self) -> None:
        pass

    async def supply(self, working_dir: str, offer: Offer) -> None:
        await offer(())
        await deaf()


class Curious(Plugin):
    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Ask[None] | Continue[None]:
        return Ask(CallService("deaf"), None, deadline=1000.0)


async def deaf_service(payload: Json) -> Json:
    await deaf()
    return payload


async def deaf_tool(supervisor: Supervisor) -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await deaf()
        return ok("late")

    model = ScriptedModel([say(calls=[call("deaf")])])
    await (await supervisor.spawn(spec_of(model, tools=[fake("deaf", body)]), "mine")).prompt("go")


async def deaf_part_of_a_tool(supervisor: Supervisor) -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(deaf)
        return ok("late")

    model = ScriptedModel([say(calls=[call("deaf")])])
    await (await supervisor.spawn(spec_of(model, tools=[fake("deaf", body)]), "mine")).prompt("go")


async def deaf_model(supervisor: Supervisor) -> None:
    await (await supervisor.spawn(spec_of(DeafModel()), "mine")).prompt("go")


async def deaf_answer(supervisor: Supervisor) -> None:
    spec = spec_of(ScriptedModel(["fine"]), plugins=[Curious()], services={"deaf": deaf_service})
    await (await supervisor.spawn(spec, "mine")).prompt("go")


async def deaf_source(supervisor: Supervisor) -> None:
    await supervisor.spawn(spec_of(ScriptedModel([]), tools=[DeafSource()]), "mine")


async def deaf_child(supervisor: Supervisor) -> None:
    await supervisor.start_service(deaf, "poller", shutdown=1000.0)


async def deaf_grandchild(supervisor: Supervisor) -> None:
    await (await supervisor.start_supervisor("team")).start_service(deaf, "poller", shutdown=1000.0)


Deaf = Callable[[Supervisor], Awaitable[None]]
ALL: dict[Deaf, tuple[str, ...]] = {
    deaf_tool: ("task `tool deaf (mine/c3)`",),
    deaf_part_of_a_tool: ("task `tool deaf (mine/c3)`", f"task `tool deaf (mine/c3) / {__name__}.deaf`"),
    deaf_model: ("task `model deaf (mine)`",),
    deaf_answer: ("task `question ask2 (mine)`",),
    deaf_source: ("task `source far (mine)`",),
    deaf_child: ("task `service poller`",),
    deaf_grandchild: ("task `service team/poller`",),
}


@pytest.mark.parametrize("begin", ALL, ids=lambda begin: begin.__name__)
@pytest.mark.parametrize("cancelled", [False, True])
async def test_whatever_does_not_heed_its_cancellation_is_left_and_named(begin: Deaf, *, cancelled: bool) -> None:
    async def supervised() -> None:
        with trio.move_on_after(3.0 if cancelled else 1000.0) as scope:
            try:
                async with open_supervisor(stop_within=WITHIN) as supervisor:
                    await begin(supervisor)
                    await trio.sleep_until(began + (1000.0 if cancelled else 3.0))
            finally:
                assert trio.current_time() - began == pytest.approx(3.0 + WITHIN, abs=0.01)
                assert scope.cancel_called == cancelled

    began = trio.current_time()
    stuck = await left_and_gone(supervised)
    assert tuple(found_line.partition(" at ")[0] for found_line in stuck) == ALL[begin]
    assert all(f" at {HERE}" in line for line in stuck)


async def test_the_thread_of_the_loop_is_not_named_whatever_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    async def supervised() -> None:
        async with open_supervisor(stop_within=WITHIN) as supervisor:
            await deaf_tool(supervisor)
            await settle()

    monkeypatch.setattr(threading.current_thread(), "name", "agentrail journal loop")
    stuck = await left_and_gone(supervised)
    assert [line.partition(" ")[0] for line in stuck] == ["task"]


@pytest.mark.parametrize("seed", range(8))
async def test_what_ends_at_the_last_moment_is_named_or_is_not_stuck(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        with trio.CancelScope(shield=True):
            await trio.sleep_until(end)
        return ok("late")

    # In some orders of the passes of the loop, the tool has ended when it is looked for.
    monkeypatch.setattr(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    monkeypatch.setattr(scheduler, "_r", random.Random(seed))
    end, named = trio.current_time() + WITHIN, "task `tool deaf (mine/c3)`"
    stuck: tuple[str, ...] = (named,)
    try:
        async with open_supervisor(stop_within=WITHIN) as supervisor:
            model = ScriptedModel([say(calls=[call("deaf")])])
            await (await supervisor.spawn(spec_of(model, tools=[fake("deaf", body)]), "mine")).prompt("go")
            await settle()
    except SupervisorStuck as error:
        stuck = error.stuck
    assert [line.partition(" at ")[0] for line in stuck] == [named]


async def test_without_a_limit_it_is_waited_for() -> None:
    async with open_supervisor(stop_within=None) as supervisor:
        await deaf_tool(supervisor)
        await settle()
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(1000, abs=0.01)


async def test_what_needs_longer_than_there_is_but_heeds_its_cancellation_is_no_error() -> None:
    journal = TestJournal()
    async with open_supervisor(stop_within=WITHIN, journal=journal) as supervisor:
        stop_at_the_end(supervisor)
        session = await supervisor.spawn(spec_of(ScriptedModel([]), shutdown=1000.0))
        journal.commit = 1000.0
        with trio.CancelScope() as scope:
            scope.cancel()
            await session.prompt("go")
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(WITHIN * 0.9, abs=0.01)


async def test_whoever_waits_elsewhere_is_told_if_the_stop_of_all_is_cut_short() -> None:
    """Nothing is stuck, but what was to be stopped after the youngest session was not reached in order."""
    journal, report = TestJournal(), list[tuple[str, type[Exception], float]]()

    async def waits(name: str, doing: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises((NotReady, SessionNotAlive)) as raised:
            await doing()
        report.append((name, raised.type, trio.current_time() - began))

    async def never_ready(task_status: trio.TaskStatus[None]) -> None:  # noqa: ARG001 - it never says so
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with open_supervisor(stop_within=WITHIN, journal=journal) as supervisor:
            stop_at_the_end(supervisor)
            nursery.start_soon(waits, "service", partial(supervisor.start_service, never_ready, "poller"))
            for name in ("older", "younger"):
                session = await supervisor.spawn(spec_of(ScriptedModel([stall()]), shutdown=1000.0), name)
                nursery.start_soon(waits, name, partial(session.ask, "go"))
            await settle()
            journal.commit = 1000.0
            began = trio.current_time()
        await settle()
    assert {name: kind for name, kind, _ in report} == {
        "older": SessionNotAlive,
        "service": NotReady,
        "younger": SessionNotAlive,
    }
    assert [time for _, _, time in report] == pytest.approx([WITHIN * 0.9] * 3, abs=0.01)


async def test_what_went_wrong_before_comes_out_beside_it() -> None:
    async def supervised() -> None:
        try:
            async with open_supervisor(stop_within=0) as supervisor:
                await deaf_child(supervisor)
                raise LookupError
        except* LookupError:
            seen.append(True)

    seen: list[bool] = []
    with pytest.RaisesGroup(SupervisorStuck):
        await supervised()
    assert seen == [True]
    await trio.sleep(2000)


async def test_who_waits_for_a_session_that_is_left_behind_is_told() -> None:
    class Hanging(TestJournal):
        """A journal whose appends hang."""

        hangs = False

        async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
            if self.hangs:
                await deaf()
            return await super().append(claim, expected, records)

    journal, durable = Hanging(), list[Record]()
    sessions: list[SessionHandle] = []
    began, seconds = 0.0, list[float]()

    async def prompt() -> None:
        with pytest.raises(SessionParked):
            await sessions[0].prompt("again")
        seconds.append(trio.current_time() - began)

    async def supervised() -> None:
        nonlocal began
        async with open_supervisor(stop_within=WITHIN, journal=journal) as supervisor:
            sessions.append(await supervisor.spawn(spec_of(ScriptedModel(["fine"])), "mine"))
            await sessions[0].ask("go")
            await settle()
            durable.extend(await journal.read("mine"))
            journal.hangs = True
            nursery.start_soon(prompt)
            await settle()
            began = trio.current_time()

    async with trio.open_nursery() as nursery:
        (stuck,) = await left_and_gone(supervised)
    assert stuck.startswith(f"task `session mine` at {HERE}")
    assert seconds == [pytest.approx(WITHIN, abs=0.01)]
    assert (await journal.read("mine"))[: len(durable)] == tuple(durable)


class Hung:
    """A thread that hangs until `let_go`."""

    def __init__(self) -> None:
        self._here, self._over = threading.Event(), threading.Event()

    def hang(self) -> None:
        self._here.set()
        self._over.wait(PATIENCE)

    async def is_here(self) -> None:
        """Wait until the thread hangs; virtual time stands still until then."""
        while not self._here.is_set():
            await trio.lowlevel.checkpoint()

    def let_go(self) -> None:
        self._over.set()


@pytest.fixture
def hung() -> Iterator[Hung]:
    found_hung = Hung()
    yield found_hung
    found_hung.let_go()


async def ended(names: Sequence[str]) -> None:
    """Wait until no task has one of these names."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    while any(name in task.name for nursery in root.child_nurseries for task in tasks_in(nursery) for name in names):
        await trio.lowlevel.checkpoint()


async def test_a_task_that_waits_for_a_thread_is_named_with_that(hung: Hung) -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.to_thread.run_sync(hung.hang)
        return ok("late")

    async def supervised() -> None:
        async with open_supervisor(stop_within=WITHIN) as supervisor:
            model = ScriptedModel([say(calls=[call("hangs")])])
            session = await supervisor.spawn(spec_of(model, tools=[fake("hangs", body)]), "mine")
            await session.prompt("go")
            await hung.is_here()

    with pytest.raises(SupervisorStuck) as stuck:
        await supervised()
    hung.let_go()
    task, thread = stuck.value.stuck
    assert task.startswith(f"task `tool hangs (mine/c3)` at {HERE}")
    assert task.endswith(" in body")
    assert thread.startswith("thread `hang from tool hangs (mine/c3)` at ")
    await ended(["tool hangs"])


async def test_a_thread_of_a_tool_is_left_behind_and_named(hung: Hung, caplog: pytest.LogCaptureFixture) -> None:
    async def body(_args: JsonObject, ctx: ToolContext) -> ToolResult:
        assert ctx.threads is not None
        await ctx.threads.run(hung.hang)
        return ok("late")

    async with open_supervisor(stop_within=WITHIN) as supervisor:
        model = ScriptedModel([say(calls=[call("hangs")])])
        session = await supervisor.spawn(spec_of(model, tools=[fake("hangs", body)]), "mine")
        await session.prompt("go")
        await hung.is_here()
        began = trio.current_time()
    assert trio.current_time() - began == pytest.approx(STRAGGLER_AFTER, abs=0.01)
    (line,) = (record.getMessage() for record in caplog.records if "left behind" in record.getMessage())
    assert line.startswith("threads of tools that do not end are left behind: hangs at ")
    assert ".py:" in line


@pytest.mark.parametrize("name", ["agentrail-watchdog", "agentrail spans", "agentrail loop"])
async def test_a_thread_of_ours_that_no_task_waits_for_is_not_named_whatever_it_does(name: str, hung: Hung) -> None:
    async def supervised() -> None:
        async with open_supervisor(stop_within=WITHIN) as supervisor:
            await deaf_tool(supervisor)
            await settle()

    with ThreadPoolExecutor(thread_name_prefix=name) as pool:
        pool.submit(hung.hang)
        await hung.is_here()
        stuck = await left_and_gone(supervised)
        hung.let_go()
    assert [line.partition(" ")[0] for line in stuck] == ["task"]


async def test_a_disk_that_hangs_in_a_commit_holds_nobody(hung: Hung, tmp_path: Path) -> None:
    path = tmp_path / "agentrail.db"
    journal = Dozing(SqliteJournal(path))
    sessions: list[SessionHandle] = []

    def hang(point: Failpoint) -> None:
        if point is Failpoint.COMMIT and journal.dozing:
            hung.hang()

    async def prompt() -> None:
        with pytest.raises(SessionParked):
            await sessions[0].prompt("again")

    async def supervised() -> None:
        async with open_supervisor(stop_within=WITHIN, journal=journal) as supervisor:
            sessions.append(await supervisor.spawn(spec_of(ScriptedModel(["fine"])), "mine"))
            await sessions[0].ask("go")
            journal.dozing = True
            nursery.start_soon(prompt)
            await hung.is_here()

    with watching(hang):
        async with trio.open_nursery() as nursery:
            with pytest.raises(SupervisorStuck) as stuck:
                await supervised()
        hung.let_go()
        await ended(["session mine", ROOT_TASK])
    journal.dozing = False
    await journal.close()
    actual = {line.partition(" at ")[0]: line for line in stuck.value.stuck}
    assert actual.keys() == {"task `session mine`", "the end of the supervisor", "thread `agentrail journal writer`"}
    assert "in wait" in actual["thread `agentrail journal writer`"]
    again = AwakeJournal(SqliteJournal(path))
    records = await again.read("mine")
    await again.close()
    assert [type(record.arrival.input).__name__ for record in records][:2] == ["SessionOpened", "PromptSent"]


async def test_a_journal_that_hangs_while_it_is_closed_is_named_and_then_cancelled() -> None:
    class Hangs(TestJournal):
        async def close(self) -> None:
            await trio.sleep(1000)

    await settle()
    old_tasks_living = trio.lowlevel.current_statistics().tasks_living
    began = trio.current_time()
    with pytest.raises(SupervisorStuck) as stuck:
        async with open_supervisor(stop_within=WITHIN, journal=Hangs()):
            pass
    assert trio.current_time() - began == pytest.approx(WITHIN)
    (line,) = stuck.value.stuck
    assert line.startswith(f"the end of the supervisor at {HERE}")
    await settle()
    assert trio.lowlevel.current_statistics().tasks_living == old_tasks_living


async def test_one_whose_time_is_over_before_its_end_has_begun_starts_nothing_more() -> None:
    async with open_supervisor(journal=TestJournal()) as supervisor:
        supervisor._sessions.cut_short()  # noqa: SLF001 - whether that comes before the end begins is up to Trio
        with pytest.raises(SupervisorClosed):
            await supervisor.spawn(spec_of(ScriptedModel([])))


@pytest.mark.parametrize("within", [-1, float("nan"), "10", True])
async def test_a_time_that_is_none_is_refused(within: float) -> None:
    with pytest.raises(WrongType, match="stop_within"):
        async with open_supervisor(stop_within=within):
            pytest.fail("it cannot be entered")


async def test_the_end_of_the_program_hurries_a_supervisor_that_is_being_left() -> None:
    async def begin_ending() -> None:
        await trio.sleep(2)
        ending().begin(10.0)

    async def supervised() -> None:
        async with open_supervisor(stop_within=None) as supervisor:
            await deaf_tool(supervisor)
            await settle()

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(begin_ending)
        with pytest.raises(SupervisorStuck):
            await supervised()
        assert trio.current_time() - began == pytest.approx(2 + 10 - 1, abs=0.01)
    await trio.sleep(2000)


@pytest.mark.parametrize("within", [0.5, 4.0, 100.0])
async def test_a_program_with_little_time_leaves_its_supervisors_before_that_is_over(within: float) -> None:
    async def supervised() -> None:
        async with open_supervisor(stop_within=1000.0) as supervisor:
            await deaf_tool(supervisor)
            await settle()
            ending().begin(within)

    began = trio.current_time()
    with pytest.raises(SupervisorStuck):
        await supervised()
    assert trio.current_time() - began < within
    await trio.sleep(2000)


async def test_a_supervisor_that_is_left_later_has_no_more_than_the_program() -> None:
    ending().begin(10.0)
    await trio.sleep(5)
    began = trio.current_time()

    async def supervised() -> None:
        async with open_supervisor(stop_within=100.0) as supervisor:
            await deaf_tool(supervisor)
            await settle()

    with pytest.raises(SupervisorStuck):
        await supervised()
    assert trio.current_time() - began == pytest.approx(10 - 1 - 5, abs=0.01)
    await trio.sleep(2000)


class Mute(TestJournal):
    """A journal of which one method does not answer, and does not heed its cancellation, from when it is told."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method
        self.mute = False

    async def _answer(self, method: str) -> None:
        if self.mute and method == self.method:
            await deaf()

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        await self._answer("claim")
        return await super().claim(session_id, holder, lease, take_over=take_over)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        await self._answer("read")
        return await super().read(session_id, after, limit)


OPENINGS: dict[str, Callable[[Supervisor], Awaitable[SessionHandle]]] = {
    "spawn": lambda supervisor: supervisor.spawn(spec_of("demo"), "new"),
    "resume": lambda supervisor: supervisor.resume("stored", spec_of("demo")),
    "open": lambda supervisor: supervisor.open("stored", spec_of("demo")),
    "fork": lambda supervisor: supervisor.fork("stored", spec_of("demo"), id="new"),
}


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS)
@pytest.mark.parametrize("method", ["read", "claim"])
async def test_a_body_that_waits_for_a_journal_that_never_answers_is_left(
    method: str, opening: Callable[[Supervisor], Awaitable[SessionHandle]]
) -> None:
    journal = Mute(method)
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.spawn(spec_of("demo"), "stored")
    began = trio.current_time()
    took: list[float] = []

    async def supervised() -> None:
        try:
            with trio.move_on_after(1):
                async with open_supervisor(journal=journal, stop_within=WITHIN) as supervisor:
                    journal.mute = True
                    await opening(supervisor)
        finally:
            took.append(trio.current_time() - began)

    (stuck,) = await left_and_gone(supervised)
    assert re.match(rf"task `opening (new|stored)` at {re.escape(HERE)}\d+ in deaf", stuck)
    assert took == [pytest.approx(1 + LEFT_AFTER + WITHIN)]


@pytest.mark.parametrize("within", [0, 0.0001])
async def test_without_any_time_only_what_does_not_heed_its_cancellation_is_named(within: float) -> None:
    async def supervised() -> None:
        async with open_supervisor(stop_within=within, journal=TestJournal()) as supervisor:
            await supervisor.spawn(spec_of(ScriptedModel([])), "idle")
            await deaf_tool(supervisor)
            await settle()

    (stuck,) = await left_and_gone(supervised)
    assert stuck.startswith(f"task `tool deaf (mine/c3)` at {HERE}")


async def test_without_any_time_nothing_is_stuck_if_all_heeds_its_cancellation() -> None:
    async with open_supervisor(stop_within=0) as supervisor:
        await (await supervisor.spawn(spec_of(ScriptedModel([stall()])), "mine")).prompt("go")
        await settle()


async def test_the_place_is_that_of_the_code_of_the_program_if_it_waits_in_a_call_of_ours() -> None:
    async def service() -> None:
        with trio.CancelScope(shield=True):
            await sessions[0].ask("go")

    async def supervised() -> None:
        async with open_supervisor() as other, open_supervisor(stop_within=WITHIN) as supervisor:
            sessions.append(await other.spawn(spec_of(ScriptedModel([say("late", delay=1000.0)]))))
            await supervisor.start_service(service, "poller", shutdown=1000.0)

    sessions: list[SessionHandle] = []
    (stuck,) = await left_and_gone(supervised)
    assert stuck.startswith(f"task `service poller` at {HERE}")
    assert stuck.endswith(" in service")

"""The simulator: a seed gives the same run on any machine, and a failing run says how to repeat it."""

import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from functools import cache
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agentrail import Context, Continue, Plugin, SessionSpec, Supervisor, open_supervisor
from agentrail.adapters.sandboxes.kept_files.folder_snapshots import STORES
from agentrail.adapters.sandboxes.kept_files.object_store import ObjectStore
from agentrail.adapters.sandboxes.kept_files.taken_log import TakenLog
from agentrail.adapters.user_folders import HOME
from agentrail.core.machine import requests
from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary.inputs import SleepDue
from agentrail.errors import BadChoice
from agentrail.events import SteeringApplied
from agentrail.journals import MemoryJournal, Snapshot
from agentrail.plugins import BeforeRequest, BudgetGuard
from agentrail.runtime.actor.journal_log import rebuild_state
from agentrail.runtime.actor.session import Session
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.timers import Timers
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.testing import Holder, ScriptedModel, SimulationFailedError, Simulator, call, say, stall
from agentrail.testing.simulator import process_life, virtual
from agentrail.testing.simulator.__main__ import main
from agentrail.testing.simulator.auditor import is_same
from agentrail.testing.simulator.environment import Environment, nobody
from agentrail.testing.simulator.fault_kinds import FAULTS, generator
from agentrail.testing.simulator.faulty_journal import FaultyJournal
from agentrail.testing.simulator.final_checks import Intensity, begin_to_close, check_order, check_reports
from agentrail.testing.simulator.liveness import LivenessCheck
from agentrail.testing.simulator.patches import breakable, watched
from agentrail.testing.simulator.rules import RULES, RunVerdict
from agentrail.testing.simulator.simulator import MODES, Report
from agentrail.testing.simulator.virtual import ClockWatch, NothingMovesError, run
from tests import hook_time
from tests.machinery.simulator.checked_simulator import CheckedSimulator
from tests.profiles import CAMPAIGN
from tests.runtime.tools import quick

SEEDS = range(6 if CAMPAIGN else 2)

PRINT_DIGESTS = """
from agentrail.testing import Simulator
for seed in {seeds!r}:
    print(Simulator("liveness" if seed % 2 else "safety").run(seed).digest)
"""


@pytest.fixture(autouse=True, scope="module")
def _hooks_are_timed() -> Generator[None]:
    """Have slow steps reported, as other processes do: the time of a simulation is simulated too."""
    hook_time.allow(hook_time.TOLD)
    yield
    hook_time.allow(hook_time.ANY)


def mode_of(seed: int) -> str:
    return MODES[seed % 2]


@cache
def reports() -> list[Report]:
    """Return the reports of the first run of each seed in this process."""
    return [Simulator(mode_of(seed)).run(seed) for seed in SEEDS]


@pytest.mark.long
def test_the_same_seed_is_the_same_run() -> None:
    first, second = reports(), [Simulator(mode_of(seed)).run(seed) for seed in SEEDS]
    assert first == second
    assert len({report.digest for report in first}) == len(SEEDS)


@pytest.mark.long
def test_it_is_the_same_run_in_another_process_with_another_hash_seed() -> None:
    digests = {
        subprocess.run(  # noqa: S603 - our own code
            [sys.executable, "-c", PRINT_DIGESTS.format(seeds=SEEDS)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    here = "".join(f"{report.digest}\n" for report in reports())
    assert digests == {here}


def test_there_are_many_kinds_of_faults_each_said_once() -> None:
    names = Counter(fault.name for fault in FAULTS)
    assert len(names) >= 20
    assert set(names.values()) == {1}
    assert all(fault.says and 0 < fault.fires <= 1000 for fault in FAULTS)


@pytest.mark.long
def test_the_clock_of_a_call_may_stand_still_while_its_sub_agent_waits_near_a_limit() -> None:
    CheckedSimulator("safety").check(1690)


@pytest.mark.campaign
@pytest.mark.long
def test_only_the_faults_that_are_wanted_fire() -> None:
    expected = ("tool_raises", "journal_slow")
    counts: Counter[str] = Counter()
    for seed in range(20):
        counts += CheckedSimulator(faults=expected).check(seed).faults
    assert set(counts) == set(expected)
    assert not Simulator(faults=()).check(1).faults


ERASING = ("sessions_deleted", "sessions_redacted", "process_dies")


def erased() -> Counter[str]:
    """Return how often each fault has fired in runs that delete and redact stored sessions."""
    counts: Counter[str] = Counter()
    for seed in range(20):
        counts += CheckedSimulator(mode_of(seed), faults=ERASING).check(seed).faults
    return counts


@pytest.mark.campaign
@pytest.mark.long
def test_stored_sessions_are_deleted_and_redacted() -> None:
    assert set(erased()) == set(ERASING)


@pytest.mark.long
@pytest.mark.parametrize("name", ["delete", "redact"])
def test_a_journal_that_keeps_what_it_should_erase_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def keep(*_: object) -> int:
        await trio.lowlevel.checkpoint()
        return 1

    monkeypatch.setattr(MemoryJournal, name, keep)
    with pytest.raises(SimulationFailedError, match="erased"):
        erased()


@pytest.mark.long
def test_the_snapshots_of_the_user_stay_when_simulated_sessions_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that dropped them would let a run seem to stand still, too, on machines that have such snapshots."""
    monkeypatch.setenv(HOME, str(tmp_path))
    simulator, deleted = CheckedSimulator(faults=("sessions_deleted", "process_dies")), list[str]()
    deletes = MemoryJournal.delete

    async def noting(journal: MemoryJournal, session_id: str, holder: str, at: int) -> int:
        deleted.append(session_id)
        return await deletes(journal, session_id, holder, at)

    monkeypatch.setattr(MemoryJournal, "delete", noting)
    simulator.check(0)
    store = ObjectStore(tmp_path / STORES / "folder")
    store.make()
    for session_id in deleted:
        TakenLog(store).add(session_id, "0" * 64)
    lines = TakenLog(store).lines()
    simulator.check(0)
    assert lines
    assert TakenLog(store).lines() == lines


def test_a_fault_that_is_left_out_leaves_the_chance_of_the_others_alone() -> None:
    assert generator(5, "fault", "tool_raises").random() == generator(5, "fault", "tool_raises").random()
    assert generator(5, "fault", "tool_raises").random() != generator(5, "fault", "tool_exits").random()


def test_what_there_is_not_is_refused_with_what_there_is() -> None:
    with pytest.raises(BadChoice, match="safety"):
        Simulator("hope")
    with pytest.raises(BadChoice, match="tool_raises"):
        Simulator(faults=["tool_rises"])


TIMES: list[int] = []


class Seen(Plugin[None]):
    """Notes each request."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Continue[None]:
        TIMES.append(ctx.round)
        return Continue()


@pytest.mark.long
def test_plugins_of_ones_own_are_in_every_session() -> None:
    TIMES.clear()
    Simulator(plugins=[Seen()], faults=()).check(0)
    assert TIMES


@pytest.mark.long
def test_nobody_meddles_when_the_players_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[object] = []

    def noting(environment: Environment, policy: Intensity, supervisor: Supervisor) -> None:
        values.append(environment.meddle)
        check_reports(environment, policy, supervisor)

    monkeypatch.setattr(process_life, "check_reports", noting)
    Simulator(faults=["meddling"]).check(0)
    assert values
    assert set(values) == {nobody}


async def test_a_sub_agent_that_comes_back_with_its_session_is_in_the_books(autojump_clock: MockClock) -> None:
    del autojump_clock
    environment, disk = Environment(0, ()), MemoryJournal()
    asks = say(calls=[call("task", {"agent": "helper", "description": "help", "prompt": "Help."})])
    helper = SessionSpec(model=ScriptedModel([stall()]), description="Helps.")
    spec = SessionSpec(model=ScriptedModel([asks]), agents={"helper": helper})
    async with open_supervisor(journal=FaultyJournal(disk, environment.chaos, environment.auditor, 1)) as supervisor:
        await (await supervisor.spawn(spec, "s")).prompt("go")
        await trio.sleep(1)
    async with open_supervisor(journal=FaultyJournal(disk, environment.chaos, environment.auditor, 2)) as supervisor:
        session = await supervisor.resume("s", spec)
        assert len(session.inspect().subagents) == 1
    assert environment.verdict.problem is None


async def _look_at_a_sleeper(environment: Environment, meddle: Callable[[Session], None]) -> None:
    """Let a session with a held call sleep, call *meddle*, and have the watchman look at it."""
    script = ScriptedModel([say(calls=[call("write")])])
    spec = SessionSpec(model=script, tools=[quick("write")], plugins=[Holder(timeout=100.0)], hibernate_after=1.0)
    with watched(environment):
        async with open_supervisor(
            journal=FaultyJournal(MemoryJournal(), environment.chaos, environment.auditor, 1)
        ) as supervisor:
            session = await supervisor.spawn(spec, "s")
            await session.ask("write")
            await trio.sleep(5)
            (view,) = supervisor.tree().children
            assert view.state == "asleep"
            meddle(environment.actors["s"])
            LivenessCheck(environment, supervisor).look()


@pytest.mark.parametrize(
    ("meddle", "says"),
    [
        (lambda _environment, _session: None, None),
        (lambda environment, _session: environment.timers.clear(), "which is not set"),
        (lambda environment, _session: environment.running.update(["s/c3"]), "run ['c3'], and only [] are to"),
        (lambda _environment, session: session.mailbox.post_result(Letter(SleepDue())), "sleeps, beside (0, 1, 0)"),
    ],
)
async def test_the_watchman_looks_also_at_who_sleeps(
    meddle: Callable[[Environment, Session], None], says: str | None, autojump_clock: MockClock
) -> None:
    del autojump_clock
    environment = Environment(0, ())

    def quietly(session: Session) -> None:
        session.mailbox.wake_callback, wake = None, session.mailbox.wake_callback
        meddle(environment, session)
        session.mailbox.wake_callback = wake

    await _look_at_a_sleeper(environment, quietly)
    problem = environment.verdict.problem
    assert problem is None if says is None else problem is not None and problem.rule == "alive" and says in problem.text


async def test_a_timer_that_was_set_anew_does_not_fire_at_its_old_time(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    del autojump_clock
    monkeypatch.setattr(Timers, "_is_live", lambda _timers, _timer: True)
    environment = Environment(0, ())
    with watched(environment):
        timers = Timers(Clock())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(timers.run)
            timers.set(("s", "t"), trio.current_time() + 1, lambda: None)
            timers.set(("s", "t"), trio.current_time() + 2, lambda: None)
            await trio.sleep(1.5)
            nursery.cancel_scope.cancel()
    assert environment.verdict.problem is not None
    assert environment.verdict.problem.text == "('s', 't') fires 1.000 s before its time"


async def test_a_snapshot_is_what_the_records_tell() -> None:
    environment, disk = Environment(0, ()), MemoryJournal()
    async with open_supervisor(journal=FaultyJournal(disk, environment.chaos, environment.auditor, 1)) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"])), "s")
        await session.ask("hi")
        state, head = session.inspect(), environment.auditor.book("s").records
        environment.auditor.kept(Snapshot("s", head, state))
        assert environment.verdict.problem is None
        environment.auditor.kept(Snapshot("s", head - 1, state))
    assert environment.verdict.problem is not None
    assert environment.verdict.problem.rule == "snapshots"


async def test_who_ends_by_itself_while_the_supervisor_closes_is_not_out_of_turn() -> None:
    environment = Environment(0, ())
    with breakable(environment):
        async with open_supervisor() as supervisor:
            elder = await supervisor.spawn(SessionSpec(model=ScriptedModel([])), "elder")
            await supervisor.spawn(SessionSpec(model=ScriptedModel([])), "middle")
            await supervisor.spawn(SessionSpec(model=ScriptedModel([])), "younger")
            begin_to_close(environment, supervisor)
            await elder.stop()
            async with elder.monitor() as monitor:
                await monitor.wait()
    assert environment.down == ["younger", "middle"]
    check_order(environment)
    assert environment.verdict.problem is None


async def test_an_elder_session_that_is_ended_first_breaks_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    async def oldest_first(node: SupervisorNode) -> None:
        for child in list(node.children.values()):
            await node.stop(child)

    monkeypatch.setattr(SupervisorNode, "wind_down", oldest_first)
    environment = Environment(0, ())
    with breakable(environment):
        async with open_supervisor() as supervisor:
            for name in ("elder", "younger"):
                await supervisor.spawn(SessionSpec(model=ScriptedModel([])), name)
            begin_to_close(environment, supervisor)
    check_order(environment)
    assert environment.verdict.problem is not None
    assert environment.verdict.problem.rule == "order"


def _forgets(draft: StepDraft) -> None:
    """Report waiting steering texts as applied, and drop them."""
    waiting, draft.state.steering = draft.state.steering, ()
    if waiting:
        draft.emit(SteeringApplied(tuple(text.ref for text in waiting), len(waiting)))


@pytest.mark.long
def test_a_broken_rule_is_told_with_what_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(requests, "merge_steering", _forgets)
    failed = next(report for report in map(Simulator().run, range(50)) if report.problem is not None)
    assert failed.problem is not None
    assert failed.problem.rule in RULES
    with pytest.raises(SimulationFailedError) as raised:
        Simulator().check(failed.seed)
    assert str(failed.problem) in str(raised.value)
    assert failed.command in str(raised.value)
    words = failed.command.split()[3:]
    assert main(words) == 1
    assert str(failed.problem) in capsys.readouterr().out


def test_the_command_line_runs_one_and_says_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--mode", "liveness", "--trace"]) == 0
    out = capsys.readouterr().out
    assert "record s1." in out
    assert "seed 3, liveness: no rule was broken" in out


async def waits() -> None:
    """Ignore cancellation, and wait behind another shield while it is handled."""
    try:
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
            await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()


async def waits_beside() -> None:
    """Start a task that ignores cancellation outside of this one, as tasks under a supervisor are, and wait."""
    trio.lowlevel.spawn_system_task(waits)
    await trio.sleep_forever()


async def goes_on() -> None:
    """Go on at one instant, and ignore cancellation."""
    with trio.CancelScope(shield=True):
        while True:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("main", [waits, waits_beside, goes_on])
def test_a_run_that_would_never_end_is_ended_and_leaves_no_task_behind(
    main: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual, "STEPS_AT_ONCE", 1000)
    with pytest.raises(NothingMovesError):
        run(0, ClockWatch(), lambda _: main())
    gc.collect()  # of a task that goes on when its run is over, Python complains here


async def test_states_of_plugins_that_are_only_data_after_a_redaction_count_as_the_same() -> None:
    journal = MemoryJournal(encode=True)
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel([say("well")]), plugins=[BudgetGuard(max_rounds=7)])
        session = await supervisor.spawn(spec)
        await session.ask("hello")
        entry, *_ = await rebuild_state(journal, session.id)
        assert session.inspect() != entry
        assert is_same(session.inspect(), entry)
        assert not is_same(session.inspect(), entry.but(title="another"))
        assert not is_same(session.inspect(), entry.but(plugin_states=(7,)))
        assert not is_same(session.inspect(), None)


def test_what_is_noted_of_a_run_that_never_ends_is_in_its_trace() -> None:
    verdict = RunVerdict()
    verdict.lines = []
    verdict.note("problem", "rest")
    assert [line.split() for line in verdict.lines] == [["problem", "rest"]]

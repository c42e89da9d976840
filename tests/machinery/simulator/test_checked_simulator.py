"""The simulator of our own tests: it checks more than the one that ships, and runs many seeds."""

from __future__ import annotations

import pytest

from agentrail.testing import SimulationFailedError, Simulator
from agentrail.testing.simulator.fault_kinds import FAULTS
from agentrail.testing.world.outstanding import InvariantBrokenError
from tests.machinery.checks.state_invariants import Ledger
from tests.machinery.simulator.__main__ import main
from tests.machinery.simulator.checked_simulator import CheckedSimulator


@pytest.mark.long
def test_it_is_the_same_run_as_without_the_checks() -> None:
    report, checked = Simulator().run(3), CheckedSimulator().run(3)
    assert checked.problem is None
    assert checked.but(program=report.program) == report


@pytest.mark.long
def test_a_broken_invariant_breaks_a_rule_and_the_command_that_is_told_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(*_: object) -> None:
        raise InvariantBrokenError("after_turn ran twice")

    monkeypatch.setattr(Ledger, "check", breaks)
    Simulator().check(3)
    with pytest.raises(SimulationFailedError, match="after_turn ran twice") as raised:
        CheckedSimulator().check(3)
    problem = raised.value.report.problem
    assert problem is not None
    assert problem.rule == "session"
    python, minus_m, program, *words = raised.value.report.command.split()
    assert [python, minus_m, program] == ["python", "-m", "tests.machinery.simulator"]
    assert main(words) == 1
    assert "after_turn ran twice" in capsys.readouterr().out


@pytest.mark.long
def test_a_request_may_wait_near_a_limit_for_a_question_of_the_same_session() -> None:
    CheckedSimulator("liveness").check(20007)  # a plugin's question goes on after its cancellation, and may still cost


@pytest.mark.long
def test_a_question_may_end_long_after_it_was_cancelled() -> None:
    CheckedSimulator("liveness").check(21469)  # its end is a record of a session that rests


@pytest.mark.long
def test_a_session_may_crash_in_its_end_when_no_restart_is_allowed() -> None:
    CheckedSimulator("liveness").check(22083)  # its subscribers do not hear of that end


@pytest.mark.long
def test_a_spawn_that_is_cancelled_after_its_session_was_ends() -> None:
    CheckedSimulator("liveness").check(21327)  # else the supervisor waits for a task that has ended


@pytest.mark.long
def test_the_command_line_runs_many_and_shows_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "4", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "4 seeds" in out
    assert "0 broke a rule" in out
    assert all(fault.name in out for fault in FAULTS)

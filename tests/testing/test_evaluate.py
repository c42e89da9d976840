"""The fixture `evaluate`: a case is a test."""

import subprocess
import sys
from pathlib import Path

import pytest

from agentrail import SessionSpec
from agentrail.evals import Case, Scorer, contains
from agentrail.testing import ScriptedModel
from agentrail.testing.evaluated_case import evaluate_case

TESTS = """
import pytest

from agentrail import SessionSpec
from agentrail.evals import Case, Dataset, contains
from agentrail.testing import ScriptedModel

CASES = Dataset([Case("right", ("When?",), "nine"), Case("wrong", ("When?",), "ten"), Case("dead", ("When?",), "x")])


def clerk(case):
    return SessionSpec(model=ScriptedModel([] if case.name == "dead" else ["We open at nine."]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case, evaluate):
    evaluate(case, clerk, [contains], repeats=2)
"""


@pytest.mark.long
def test_a_case_is_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_cases.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_cases.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    assert "2 failed, 1 passed" in ran.stdout, ran.stdout
    assert "at least 1 was wanted of each scorer, without a problem" in ran.stdout
    assert ["all", "0.00"] in [line.split() for line in ran.stdout.splitlines()]
    assert "no run of " in ran.stdout


CASE = Case("hours", ("When?",), "nine")


def clerk(*answers: str) -> SessionSpec:
    return SessionSpec(model=ScriptedModel(answers))


def test_each_scorer_has_to_be_as_high_as_was_wanted() -> None:
    never = Scorer("never", lambda _: 0.5)
    assert evaluate_case(CASE, clerk("At nine."), [contains, never], at_least=0.5).mean("never") == 0.5
    with pytest.raises(pytest.fail.Exception, match=r"at least 0\.6 was wanted"):
        evaluate_case(CASE, clerk("At nine."), [contains, never], at_least=0.6)


def test_a_run_that_fails_beside_a_good_one_fails_the_test() -> None:
    with pytest.raises(pytest.fail.Exception, match="without a problem"):
        evaluate_case(CASE, clerk("At nine."), [contains], repeats=2)  # the script has one answer

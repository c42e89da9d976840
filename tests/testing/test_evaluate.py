"""The fixture `evaluate`: a case is a test."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

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


def test_a_case_is_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_cases.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_cases.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    assert "2 failed, 1 passed" in ran.stdout, ran.stdout
    assert "at least 1 was wanted of each scorer, without a problem" in ran.stdout
    assert ["all", "0.00"] in [line.split() for line in ran.stdout.splitlines()]
    assert "no run of " in ran.stdout

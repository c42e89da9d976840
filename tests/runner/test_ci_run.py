"""What `.ci/run` makes of a test that fails: its functions, with a `make` that fails as it is told."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

CI_RUN = Path(__file__).parents[2] / ".ci" / "run"

STAGES = """
temporary=$1
make() {
  case $1 in
    edges) file=${2##*--store-failed=}; printf "$EDGES" >"${file%% *}"; [ -z "$EDGES" ] ;;
    lost) return 2 ;;
    alone) echo "alone: $(tr '\\n' ' ' <"${2#FAILED=}")"; [ "$ALONE" = passes ] ;;
  esac
}
"""
"""`make edges` fails with the tests in `EDGES`, `make lost` without a list of tests; `make alone` as `ALONE` says."""


def run(folder: Path, stages: str, edges: str = "", alone: str = "passes") -> tuple[int, str]:
    """Run the *stages* between the functions of `.ci/run` and its end; return the status, and what was run alone."""
    text = CI_RUN.read_text("utf-8")
    functions = re.findall(r"^(?:stage|tests_stage|run_again)\(\) \{.*?^\}$", text, re.MULTILINE | re.DOTALL)
    assert len(functions) == 3
    end = text[text.index("run_again alone-in-budget") :]
    script = "\n".join(("set -euo pipefail", STAGES, *functions, "failed=0", stages, end))
    done = subprocess.run(  # noqa: S603 - our own script
        ["/bin/bash", "-c", script, "ci", str(folder)],
        env={"EDGES": edges, "ALONE": alone, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, "".join(line for line in done.stdout.splitlines() if line.startswith("alone:")).strip()


pytestmark = pytest.mark.long


def test_what_passes_alone_does_not_fail_ci(tmp_path: Path) -> None:
    stages = "tests_stage alone edges make edges"
    assert run(tmp_path, stages) == (0, "")
    assert run(tmp_path, stages, edges="a::b\na::c\n") == (0, "alone: a::b a::c")


def test_what_fails_twice_fails_ci(tmp_path: Path) -> None:
    assert run(tmp_path, "tests_stage alone edges make edges", edges="a::b\n", alone="fails") == (1, "alone: a::b")


def test_what_fails_without_a_list_of_tests_fails_ci(tmp_path: Path) -> None:
    assert run(tmp_path, "tests_stage alone lost make lost") == (1, "")
    stages = "tests_stage alone edges make edges\ntests_stage alone lost make lost"
    assert run(tmp_path, stages, edges="a::b\n") == (1, "alone: a::b")


def test_many_failures_of_a_stage_are_not_tried_again(tmp_path: Path) -> None:
    for count, status in ((50, 0), (51, 1)):
        folder = tmp_path / str(count)
        folder.mkdir()
        assert run(folder, "tests_stage alone edges make edges", edges="a::b\n" * count)[0] == status

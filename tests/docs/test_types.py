"""The programs of the pages, and what `agentrail new` writes, have no finding in a project that is checked strictly.

All are checked together: most of the time is taken by the package that they import.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentrail.cli.authoring.new_files import KINDS
from tests.cli.test_new import made
from tests.docs.test_examples import PROGRAMS, module_of

pytestmark = pytest.mark.long


def test_what_is_shown_and_what_is_written_holds_in_a_project_that_is_checked_strictly(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for kind in KINDS:
        for path in made(kind, tmp_path / kind).glob("*.py"):
            path.rename(project / path.name)
    for program in PROGRAMS:
        with (project / f"{module_of(program)}.py").open("x", encoding="utf-8") as file:
            file.write(program.text)
    settings = (tmp_path / "agent" / "pyproject.toml").read_text("utf-8")
    assert tomllib.loads(settings)["tool"]["mypy"] == {"strict": True, "exclude": ["build/"]}
    (project / "pyproject.toml").write_text(settings, "utf-8")
    command = [sys.executable, "-I", "-m", "mypy", "--cache-dir=cache", "."]
    done = subprocess.run(command, cwd=project, check=False, capture_output=True, text=True)  # noqa: S603 - our own
    number = len(PROGRAMS) + 2 * len(KINDS)
    assert done.stdout == f"Success: no issues found in {number} source files\n", done.stdout + done.stderr

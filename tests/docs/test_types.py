"""The programs of the pages are typed: whoever copies one into a project that is checked strictly has no finding."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import PROGRAMS, module_of


@pytest.mark.long
def test_the_programs_of_the_pages_hold_in_an_empty_project_that_is_checked_strictly(tmp_path: Path) -> None:
    for program in PROGRAMS:
        (tmp_path / f"{module_of(program)}.py").write_text(program.text, encoding="utf-8")
    command = [sys.executable, "-I", "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache", "."]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)  # noqa: S603 - our own
    assert done.stdout == f"Success: no issues found in {len(PROGRAMS)} source files\n", done.stdout + done.stderr

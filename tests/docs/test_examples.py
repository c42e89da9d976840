"""Every block of Python in the README and the docs runs where a reader copies it to, and prints what the page says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.docs.as_user import OUTPUT, TROUBLE, run_programs, run_tests
from tests.docs.pages import PAGES, Program, blocks_of, programs_of

CONFIGURED: Final = "[tool.pytest.ini_options]"
"""A block of TOML with it is the `pyproject.toml` of the tests on its page; without one, they have none."""

PROGRAMS: Final = [program for page in PAGES for program in programs_of(page)]


def _is_tested(program: Program) -> bool:
    """Whether pytest runs it, and not Python."""
    return "\ntrio.run(" not in program.text and any(
        mark in program.text for mark in ("def test_", "\nclass Test", "\nTest")
    )


def _needs_the_kit(program: Program) -> bool:
    """Whether it imports what only the extra `testing` brings."""
    return re.search(r"^(from|import) (hypothesis|pytest)\b", program.text, re.MULTILINE) is not None


def module_of(program: Program) -> str:
    """Return the name of the module that *program* is written to."""
    return "".join(letter if letter.isalnum() else "_" for letter in program.place)


def _printed(program: Program) -> str | None:
    """Return what the page says that *program* prints; `None` if it says nothing of it."""
    told = [expected for _, expected in program.parts if expected is not None]
    return "".join(told) if told else None


def _configuration(page: Path) -> str:
    return next((block.text for block in blocks_of(page) if CONFIGURED in block.text), "")


def _trouble(path: Path, program: Program, failed: Sequence[Path]) -> str | None:
    """Say what is wrong with the *program* that was run as *path*."""
    if path in failed:
        return f"{program.place} failed:\n{(path.parent / TROUBLE).read_text(encoding='utf-8')}"
    printed, expected = (path.parent / OUTPUT).read_text(encoding="utf-8"), _printed(program)
    if expected is None or printed == expected:
        return None
    return f"{program.place} prints:\n{printed}\nand not:\n{expected}"


@pytest.mark.long
def test_the_programs_of_the_pages_run_in_empty_folders(tmp_path: Path) -> None:
    programs = {tmp_path / module_of(each) / "example.py": each for each in PROGRAMS if not _is_tested(each)}
    for path, program in programs.items():
        path.parent.mkdir()
        path.write_text(program.text, encoding="utf-8")
    failed = run_programs(list(programs))
    problems = [problem for path, program in programs.items() if (problem := _trouble(path, program, failed))]
    assert not problems, "\n\n".join(problems)


@pytest.mark.long
@pytest.mark.parametrize("configuration", sorted({_configuration(page) for page in PAGES}), ids=lambda text: text[:1])
def test_the_tests_of_the_pages_pass_in_an_empty_project(configuration: str, tmp_path: Path) -> None:
    for program in PROGRAMS:
        if _is_tested(program) and _configuration(program.parts[0][0].page) == configuration:
            (tmp_path / f"test_{module_of(program)}.py").write_text(program.text, encoding="utf-8")
    if configuration:
        (tmp_path / "pyproject.toml").write_text(configuration, encoding="utf-8")
    assert run_tests(tmp_path) is None


@pytest.mark.parametrize("page", [page for page in PAGES if any(map(_needs_the_kit, programs_of(page)))])
def test_a_page_says_how_to_install_what_its_first_test_needs(page: Path) -> None:
    block, _ = next(program for program in programs_of(page) if _needs_the_kit(program)).parts[-1]
    above = page.read_text(encoding="utf-8").splitlines()[: block.line]
    assert any("pip install" in line and "testing]'`" in line for line in above), block.place

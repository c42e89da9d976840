"""What the pages say would happen if their code were another does happen."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.docs.pages import Program, programs_of
from tests.docs.sources import ROOT
from tests.docs.test_examples import execute, module

__all__ = ["module"]


def _program(page: str, mark: str) -> Program:
    found = [program for program in programs_of(ROOT / page) if mark in "".join(b.text for b, _ in program.parts)]
    (program,) = found
    return program


def _run_with(program: Program, old: str, new: str, module: ModuleType) -> None:
    """Run *program* with *new* in the place of *old*, which must be in it."""
    assert any(old in block.text for block, _ in program.parts)
    for block, _ in program.parts:
        execute(block.with_(old, new), module)


def test_the_property_of_the_readme_fails_without_the_guard(module: ModuleType) -> None:
    program = _program("README.md", "test_no_call_gets_past_the_guard")
    with pytest.raises(AssertionError):
        _run_with(program, "SecurityGuard(), ", "*(), ", module)


def test_the_property_of_the_tutorial_fails_without_the_priority(module: ModuleType) -> None:
    program = _program("docs/tutorial.md", "test_no_turn_runs_more_calls_than_its_limit")
    with pytest.raises(AssertionError):
        _run_with(program, "    priority = Priority.CORE\n", "", module)

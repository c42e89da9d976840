"""Each recipe prints what its first lines say, where a reader copies it to; and the sandbox over a pipe is one."""

from __future__ import annotations

import ast
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from agentrail.adapters.python_file import load
from agentrail.sandboxes import MemorySandbox, Sandbox
from agentrail.testing import SandboxConformance
from tests.docs.as_user import OUTPUT, TROUBLE, run_programs
from tests.docs.sources import ROOT

RECIPES: Final = sorted((ROOT / "docs" / "examples" / "recipes").glob("*.py"))
PAGE: Final = ROOT / "docs" / "guide" / "recipes.md"


def _promised(recipe: Path) -> str:
    """Return what a recipe says that it prints: the indented lines of its docstring."""
    about = ast.get_docstring(ast.parse(recipe.read_text(encoding="utf-8")), clean=False) or ""
    return "".join(f"{line[4:]}\n" for line in about.splitlines() if line.startswith("    "))


def test_the_recipes_print_what_they_say(tmp_path: Path) -> None:
    programs = [tmp_path / recipe.stem / recipe.name for recipe in RECIPES]
    for program, recipe in zip(programs, RECIPES, strict=True):
        program.parent.mkdir()
        shutil.copy(recipe, program)
    failed = run_programs(programs)
    assert {program.stem: (program.parent / TROUBLE).read_text() for program in failed} == {}
    printed = {program.stem: (program.parent / OUTPUT).read_text(encoding="utf-8") for program in programs}
    assert printed == {recipe.stem: _promised(recipe) for recipe in RECIPES}
    assert all(printed.values())


def test_the_page_lists_them_all() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [recipe.name for recipe in RECIPES if f"(../examples/recipes/{recipe.name})" not in page] == []


class TestOverAPipe(SandboxConformance):
    @pytest.fixture
    async def sandbox(self, nursery: trio.Nursery) -> AsyncGenerator[Sandbox]:
        recipe = load(ROOT / "docs" / "examples" / "recipes" / "pipe_sandbox.py")
        here, there = trio.testing.memory_stream_pair()
        nursery.start_soon(recipe.serve, there, MemorySandbox())
        yield recipe.PipeSandbox(here)
        await here.aclose()

"""Each example and recipe prints what its first lines say, where a reader copies it to."""

from __future__ import annotations

import ast
import shutil
import time
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from agentrail.adapters.python_file import load
from agentrail.errors import FileFailed
from agentrail.plugins import HumanApproval
from agentrail.sandboxes import MemorySandbox, Sandbox
from agentrail.testing import SandboxConformance
from tests.docs.as_user import OUTPUT, TROUBLE, run_programs
from tests.docs.sources import ROOT

TOUR: Final = sorted((ROOT / "docs" / "examples" / "tour").glob("*.py"))
RECIPES: Final = sorted((ROOT / "docs" / "examples" / "recipes").glob("*.py"))
MAX_LINES: Final = 60
PAGE: Final = ROOT / "docs" / "guide" / "recipes.md"


def _promised(recipe: Path) -> str:
    """Return what a recipe says that it prints: the indented lines of its docstring."""
    about = ast.get_docstring(ast.parse(recipe.read_text(encoding="utf-8")), clean=False) or ""
    return "".join(f"{line[4:]}\n" for line in about.splitlines() if line.startswith("    "))


@pytest.mark.long
@pytest.mark.parametrize("recipes", [TOUR, RECIPES], ids=["tour", "recipes"])
def test_they_print_what_they_say(recipes: list[Path], tmp_path: Path) -> None:
    programs = [tmp_path / recipe.stem / recipe.name for recipe in recipes]
    for program, recipe in zip(programs, recipes, strict=True):
        program.parent.mkdir()
        shutil.copy(recipe, program)
    failed = run_programs(programs)
    assert {program.stem: (program.parent / TROUBLE).read_text() for program in failed} == {}
    printed = {program.stem: (program.parent / OUTPUT).read_text(encoding="utf-8") for program in programs}
    assert printed == {recipe.stem: _promised(recipe) for recipe in recipes}
    assert all(printed.values())


def test_the_page_lists_them_all() -> None:
    page = PAGE.read_text(encoding="utf-8")
    paths = [recipe.relative_to(ROOT / "docs").as_posix() for recipe in (*TOUR, *RECIPES)]
    assert [path for path in paths if f"(../{path})" not in page] == []


def test_the_programs_of_the_tour_are_short() -> None:
    assert len(TOUR) >= 20
    lines = {program.name: len(program.read_text(encoding="utf-8").splitlines()) for program in TOUR}
    assert {name: count for name, count in lines.items() if count >= MAX_LINES} == {}


def test_an_answer_in_a_terminal_that_comes_too_late_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = load(ROOT / "docs" / "examples" / "recipes" / "terminal_approval.py")
    monkeypatch.setattr(recipe, "HumanApproval", partial(HumanApproval, timeout=0.05))
    monkeypatch.setattr(recipe, "answer", late)
    capsys.readouterr()
    trio.run(recipe.main)
    late_word, *results = capsys.readouterr().out.splitlines()
    assert late_word == "that came too late: the call has not run"
    assert [result for result in results if result.startswith("deleted")] == []


def late(question: str) -> str:  # noqa: ARG001 - the question does not matter
    """Answer after the call has stopped waiting."""
    time.sleep(1.5)
    return "y"


PIPE: Final = ROOT / "docs" / "examples" / "recipes" / "pipe_sandbox.py"


@pytest.mark.usefixtures("autojump_clock")
async def test_a_side_of_the_pipe_that_does_not_read_keeps_nobody() -> None:
    here, _ = trio.testing.lockstep_stream_pair()
    files = load(PIPE).PipeSandbox(here)
    began = trio.current_time()
    with trio.move_on_after(1) as scope:
        await files.write("a", b"x")
    assert scope.cancelled_caught
    assert trio.current_time() - began < 10
    with pytest.raises(FileFailed, match="the other side of the pipe has gone"):
        await files.read("a")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"hello", "answers with something else"),
        (b'{"number":1,"value":3}', "answers with something else"),
        (b'{"number":1,"error":"Fenced","facts":["a","b"]}', "it answers with `Fenced`"),
        (b'{"number":1,"error":"FileMissing","facts":[]}', "it answers with `FileMissing`"),
        (b"", "has gone"),
    ],
)
async def test_the_other_side_of_the_pipe_is_not_trusted(answer: bytes, why: str) -> None:
    here, there = trio.testing.memory_stream_pair()
    await there.send_all(answer + b"\n" if answer else b"")
    await there.send_eof()
    with pytest.raises(FileFailed, match=why):
        await load(PIPE).PipeSandbox(here).read("a")


class TestOverAPipe(SandboxConformance):
    @pytest.fixture
    async def sandbox(self, nursery: trio.Nursery) -> AsyncGenerator[Sandbox]:
        recipe = load(PIPE)
        here, there = trio.testing.memory_stream_pair()
        nursery.start_soon(recipe.serve, there, MemorySandbox())
        yield recipe.PipeSandbox(here)
        await here.aclose()

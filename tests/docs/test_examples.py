"""Every block of Python in the README and the docs runs, word for word, and prints what the page says."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import redirect_stdout
from functools import partial
from inspect import iscoroutinefunction, signature
from types import FunctionType, ModuleType
from unittest import TestCase

import pytest
import trio
from trio.abc import Clock
from trio.testing import MockClock

from agentrail import open_supervisor
from agentrail.testing import ScriptedModel
from tests.docs.pages import PAGES, Block, Program, programs_of

RUN = trio.run
PROGRAMS = [program for page in PAGES for program in programs_of(page)]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Generator[ModuleType]:
    """A module to run in, with a clock that jumps to where something happens: only Trio's own clock is another."""
    fresh = ModuleType("example_of_the_docs")
    monkeypatch.setitem(sys.modules, fresh.__name__, fresh)
    monkeypatch.setattr(trio, "run", partial(_run_in_virtual_time, trio.run))
    yield fresh
    gc.unfreeze()  # an example may have the collector leave alone what is there


def _run_in_virtual_time(
    run: Callable[..., object], main: Callable[..., object], *args: object, clock: Clock | None = None
) -> object:
    return run(main, *args, clock=clock or MockClock(autojump_threshold=0))


def execute(block: Block, module: ModuleType) -> str:
    """Run *block* in *module*, and the tests that it defines, and return what it prints."""
    before = set(vars(module))
    code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec", dont_inherit=True)
    out = io.StringIO()
    with redirect_stdout(out):
        exec(code, vars(module))  # noqa: S102 - our own pages
        for name in set(vars(module)) - before:
            found = vars(module)[name]
            if name.startswith("test_") and isinstance(found, FunctionType):
                trio.run(_with_fixtures, found) if iscoroutinefunction(found) else found()
            if isinstance(found, type) and issubclass(found, TestCase) and name.startswith("Test"):
                result = found("runTest").run()
                assert result is not None
                assert result.wasSuccessful(), result.failures + result.errors
    return out.getvalue()


async def _with_fixtures(test: Callable[..., Awaitable[None]]) -> None:
    """Run *test* with the fixtures that it takes, as pytest would."""
    if not signature(test).parameters:
        return await test()
    async with open_supervisor() as supervisor:
        return await test(supervisor, lambda *script: ScriptedModel(script))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.place)
def test_a_block_of_code_runs(program: Program, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    if any("SqliteJournal" in block.text for block, _ in program.parts):
        monkeypatch.setattr(trio, "run", RUN)  # it writes in a thread, which a clock that jumps would overtake
    for block, expected in program.parts:
        printed = execute(block, module)
        if expected is not None:
            assert printed == expected, block.place

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import MockClock

from agentrail import SessionSpec, Supervisor
from agentrail.testing import ScriptedModel, say
from tests.patience import PATIENCE

TEST: Final = """
from agentrail import SessionSpec


async def test_it_greets(supervisor, scripted_model):
    session = await supervisor.spawn(SessionSpec(model=scripted_model("Hello.")))
    assert (await session.ask("Hi")).text == "Hello."


async def test_time_passes(virtual_clock):
    assert virtual_clock.autojump_threshold == 0
"""


async def test_an_agent_test_is_three_lines(
    supervisor: Supervisor, scripted_model: Callable[..., ScriptedModel]
) -> None:
    session = await supervisor.spawn(SessionSpec(model=scripted_model("Hello.", say("Bye."))))
    assert (await session.ask("Hi")).text == "Hello."
    assert (await session.ask("So long")).text == "Bye."


async def test_an_hour_passes_in_a_moment(virtual_clock: MockClock) -> None:
    assert isinstance(virtual_clock, MockClock)
    old_time = trio.current_time()
    await trio.sleep(3_600)
    assert trio.current_time() - old_time == 3_600


@pytest.mark.long
def test_a_project_without_the_option_of_pytest_trio_can_use_them(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n", "utf-8")
    (tmp_path / "test_it.py").write_text(TEST, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    ran = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=4 * PATIENCE)  # noqa: S603
    assert (ran.returncode, "2 passed" in ran.stdout) == (0, True), ran.stdout + ran.stderr

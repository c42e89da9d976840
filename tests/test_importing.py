"""What a session needs is imported when it is spawned: nothing is imported, and so held up, while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.benchmarks.wire import SAYING, served

SCENES = (
    *("tool", "state", "command", "encoded", "sqlite", "approval", "standard", "compaction", "subagent"),
    *("fork", "sleep", "snapshot", "mcp"),
)

MOST_OPCODES = 100_000
"""Eight times the most that was seen; to compile what the demo understands takes 17 million."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served() as address:
        yield address


def _imported(scene: str, *more: str) -> list[str]:
    command = [sys.executable, "-m", "tests.importing", scene, *(more or ("",))]
    environment = {name: found for name, found in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603 - our own program
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("scene", SCENES)
def test_a_session_that_has_started_imports_nothing(scene: str) -> None:
    assert _imported(scene) == []


@pytest.mark.parametrize("provider", SAYING)
def test_the_first_request_to_a_provider_imports_nothing(provider: str, url: str) -> None:
    assert _imported(provider, url) == []


def test_a_plugin_that_chooses_a_model_of_a_provider_imports_nothing(url: str) -> None:
    assert _imported("switch", url) == []


@pytest.mark.parametrize("scene", ["demo", "openai", "standard"])
def test_the_first_spawn_imports_beside_the_loop(scene: str, url: str) -> None:
    assert _imported("spawn", scene, url) == []


def test_no_step_of_the_first_turn_with_the_demo_takes_long() -> None:
    most, *task = _imported("first turn")
    assert int(most) <= MOST_OPCODES, task

"""What a session needs is imported when it is spawned: nothing is imported, and so held up, while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bench.wire import SAYING, served
from tests.importing import ENDED, SPLIT

pytestmark = pytest.mark.long

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


@pytest.fixture(scope="module")
def played() -> Iterator[subprocess.Popen[str]]:
    """Start the program that plays the scenes."""
    environment = {name: found for name, found in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.importing"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as program:
        yield program


def _imported(played: subprocess.Popen[str], scene: str, *given: str) -> list[str]:
    asked, told = played.stdin, played.stdout
    assert asked
    assert told
    asked.write(SPLIT.join((scene, *given)) + "\n")
    asked.flush()
    found: list[str] = []
    while not (line := told.readline()).startswith(ENDED):
        assert line, "the program has ended"
        found += line.split()
    assert line == f"{ENDED}0\n", "what it raised was captured"
    return found


@pytest.mark.parametrize("scene", SCENES)
def test_a_session_that_has_started_imports_nothing(played: subprocess.Popen[str], scene: str) -> None:
    assert _imported(played, scene) == []


@pytest.mark.parametrize("provider", SAYING)
def test_the_first_request_to_a_provider_imports_nothing(
    played: subprocess.Popen[str], provider: str, url: str
) -> None:
    assert _imported(played, provider, url) == []


def test_a_plugin_that_chooses_a_model_of_a_provider_imports_nothing(played: subprocess.Popen[str], url: str) -> None:
    assert _imported(played, "switch", url) == []


@pytest.mark.parametrize("scene", ["demo", "openai", "standard"])
def test_the_first_spawn_imports_beside_the_loop(played: subprocess.Popen[str], scene: str, url: str) -> None:
    assert _imported(played, "spawn", scene, url) == []


def test_no_step_of_the_first_turn_with_the_demo_takes_long(played: subprocess.Popen[str]) -> None:
    most, *task = _imported(played, "first turn")
    assert int(most) <= MOST_OPCODES, task

"""Shell lines that must not pass and lines of everyday work; a real shell proves that the first do harm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import trio

from agentrail.adapters.sandboxes.bubblewrap import check_bwrap, find_bwrap
from agentrail.errors import SandboxMissing
from agentrail.plugins import BLOCKED_PATHS, Answered, FindFiles, HumanApproval, SecurityGuard
from agentrail.plugins.shell.paths import fence
from agentrail.runtime.work.plugin_files import find_files
from agentrail.sandboxes import LocalSandbox
from tests.plugins.shell_lines import FORBIDDEN, HARMLESS, Line, World, read
from tests.plugins.shell_lines.folders import EVERYDAY, WORLD, answered
from tests.plugins.shell_lines.verdicts import verdict
from tests.profiles import CAMPAIGN
from tests.sandboxes.kinds import needs_bubblewrap

MUST_NOT_PASS = read(*FORBIDDEN)
HARMLESS_LINES = read(*HARMLESS)
CLASSES = tuple(dict.fromkeys(line.kind for line in MUST_NOT_PASS))
TOOLS = tuple(sorted({line.needs for line in MUST_NOT_PASS if line.needs}))
READERS_OF_TREES = {
    *("trees", "trees and commits", "named trees", "reading a tree", "folders that are looked through", "archivers"),
    *("searching a folder below the session's", "copying a folder below the session's, with its names", "reported"),
}
"""The classes of which lines pass in a sandbox, because it hides what they would read."""
MOST_HELD = 0.05
EVERY = 1 if CAMPAIGN else 12
"""In an ordinary run, one line of this many is proved."""


@pytest.mark.long
@pytest.mark.parametrize("kind", CLASSES)
def test_no_forbidden_line_passes_where_no_sandbox_is(kind: str) -> None:
    guard = SecurityGuard()
    passed = [line.text for line in MUST_NOT_PASS if line.kind == kind and verdict(guard, line) == "passed"]
    assert passed == []


@pytest.mark.long
@needs_bubblewrap
def test_what_passes_because_of_the_sandbox_does_no_harm_in_it(tmp_path: Path) -> None:
    guard = SecurityGuard(confined_tools=("shell",))
    lines = [line for line in MUST_NOT_PASS if verdict(guard, line) == "passed"]
    assert {line.kind for line in lines} <= READERS_OF_TREES
    assert len(lines) > 100
    world = World(tmp_path)
    assert [line.text for line in lines[::EVERY] if world.harm_in_sandbox(line)] == []


@pytest.mark.long
def test_hardly_a_harmless_line_is_held_and_none_is_blocked() -> None:
    guard = SecurityGuard(confined_tools=("shell",))
    said = {line.text: verdict(guard, line, EVERYDAY) for line in HARMLESS_LINES}
    assert [text for text, found in said.items() if found == "blocked"] == []
    held = [text for text, found in said.items() if found == "held"]
    assert len(held) <= MOST_HELD * len(said), held


def test_an_approval_is_asked_for_whatever_a_forbidden_line_hides() -> None:
    """What passes `HumanApproval` only reads and says openly what: `SecurityGuard` blocks it or knows the folder."""
    approval, guard = HumanApproval(), SecurityGuard(confined_tools=("shell",))
    hidden = {"unknown value", "input to xargs", "programs as arguments", "encodings", "environment"}
    passed = [
        line.text
        for line in MUST_NOT_PASS
        if line.kind in hidden and verdict(approval, line) == "passed" and verdict(guard, line) != "blocked"
    ]
    assert passed == []


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    try:
        check_bwrap(find_bwrap())
    except SandboxMissing as error:
        pytest.skip(f"NO FORBIDDEN LINE WAS PROVED: {error}")
    return World(tmp_path_factory.mktemp("world"))


def _unproved(world: World, lines: list[Line]) -> list[tuple[str, str]]:
    return [
        (shell, line.text)
        for line in lines
        for shell in line.shells
        if not (world.harm(line, shell) or world.harm(line, shell))  # again: a busy machine may cut a line short
    ]


@pytest.mark.long
def test_the_guard_is_told_of_the_folders_in_which_the_lines_are_run(world: World) -> None:
    names = tuple(sorted(fence(BLOCKED_PATHS).firsts))
    for request in (
        FindFiles(names, (".",), (".",)),
        FindFiles(names, ("sub", "src", "y")),
        FindFiles(names, (), (".", "sub")),
    ):
        real = trio.run(find_files, LocalSandbox(str(world.folder)), request)
        assert answered(request, WORLD) == Answered(real)


@pytest.mark.campaign
@pytest.mark.long
def test_harmful_lines_do_harm_in_a_real_shell(world: World) -> None:
    lines = [line for line in MUST_NOT_PASS if not line.needs]
    assert _unproved(world, lines[::EVERY]) == []


@pytest.mark.long
@pytest.mark.parametrize("tool", TOOLS)
def test_harmful_lines_of_rare_tools_do_harm_where_they_are_installed(world: World, tool: str) -> None:
    lines = [line for line in MUST_NOT_PASS if line.needs == tool]
    if shutil.which(tool) is None:
        texts = "; ".join(line.text for line in lines)
        pytest.skip(f"NOT PROVED, because `{tool}` is not installed: {texts}")
    assert _unproved(world, lines) == []


@pytest.mark.long
def test_harmless_lines_do_no_harm_to_the_world(world: World, tmp_path: Path) -> None:
    assert world.harm(Line("cat notes.txt; make", "", "", ("bash",)), "bash") == ""
    assert list(tmp_path.iterdir()) == []

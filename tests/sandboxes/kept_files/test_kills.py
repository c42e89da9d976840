"""A process that is killed at any step of a snapshot or a rewind: no byte of the person is lost, no file is half."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentrail import open_supervisor
from agentrail.errors import FilesEdited
from agentrail.journals import SqliteJournal
from tests.sandboxes.kept_files.mortal import AFTER, MINE, OLD, STEPS, spec_in

pytestmark = pytest.mark.long

PLACES = [f"{point.name}:{times}" for point, count in STEPS.items() for times in range(1, count + 1)]
REWINDS = [place for place in PLACES if place.partition(":")[2] > "2" or "_BACK" in place or "STAGED" in place]
"""The places after the call was recorded."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with those of the processes that were killed."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.sandboxes.kept_files.mortal", str(folder), *PLACES]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own program
    assert dict(line.split() for line in printed.splitlines()) == dict.fromkeys(PLACES, "-9")
    return folder


def files_in(folder: Path) -> dict[str, str]:
    """Return the texts of all files below *folder*, by path."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("place", PLACES)
async def test_a_kill_loses_nothing_and_the_next_rewind_ends_the_work(
    place: str, killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, folder = killed / place, killed / place / "work"
    monkeypatch.setenv("AGENTRAIL_HOME", str(top / "home"))
    files = files_in(folder)
    is_rewind = place in REWINDS
    mine = MINE if is_rewind else {"mine.txt": "old"}
    assert {name: files.get(name) for name in mine} == mine
    for name, text in files.items():
        if not name.startswith(".agentrail-"):
            assert text in {OLD.get(name), AFTER.get(name), mine.get(name)}, name
    async with open_supervisor(journal=SqliteJournal(top / "journal.db")) as supervisor:
        session = await supervisor.resume("s", spec_in(folder))
        try:
            await session.rewind(0)
        except FilesEdited:  # nobody noted that the agent was done: its changes could be those of a person
            assert not is_rewind
            await session.rewind(0, over_edits=True)
    if is_rewind:
        assert files_in(folder) == OLD | MINE
    else:
        assert files_in(folder)["mine.txt"] == "old"

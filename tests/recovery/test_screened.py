"""What a plugin takes out of texts is in no file afterwards, also if the process is killed at any place."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.kit import Failpoint
from tests.profiles import CAMPAIGN
from tests.recovery.screened import KEY, MASK

pytestmark = pytest.mark.long

POINTS: Final = (
    Failpoint.MESSAGE_TAKEN,
    Failpoint.APPEND,
    Failpoint.APPENDED,
    Failpoint.PUBLISH,
    Failpoint.ANSWER,
    Failpoint.FIRST_CHUNK,
    Failpoint.STREAM_OPENED,
    Failpoint.RESPONSE,
    Failpoint.TOOL_DONE,
    Failpoint.CALL_POSTED,
    Failpoint.REQUEST_CUT,
    Failpoint.COMMIT,
    Failpoint.COMMITTED,
)
TIMES: Final = range(1, 9) if CAMPAIGN else (1, 2)


def lived(folder: Path, *places: str) -> dict[str, int]:
    """Let a process live until each of *places*; return its exit statuses."""
    command = [sys.executable, "-m", "tests.recovery.screened", str(folder), *places]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    return {index: int(status) for index, status in (line.split() for line in outcome.stdout.splitlines())}


def bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def test_a_key_in_each_place_is_in_no_file_afterwards(tmp_path: Path) -> None:
    assert lived(tmp_path, "end") == {"end": 0}
    names = {file.name for file in (tmp_path / "end").iterdir()}
    assert names >= {"agentrail.db", "events", "log", "steps"}
    assert KEY.encode() not in bytes_in(tmp_path / "end")
    events = (tmp_path / "end" / "events").read_text()
    for text in (
        f"my key is {MASK}",
        f"queued {MASK}",
        f"rather {MASK}",
        f"delta='{MASK} This",
        f"ThinkingDelta(delta='{MASK} ",
        f"found {MASK}",
        f"{MASK} and {MASK}",
        f"OSError: {MASK}",
        f"take {MASK}",
        f"the key is {MASK}",
        f"refused: {MASK}",
        f"because of {MASK}",
        f"nothing. {MASK} This is",
        "interrupted=True",
    ):
        assert text in events, text


def test_without_the_plugin_the_key_is_found(tmp_path: Path) -> None:
    assert lived(tmp_path, "plain") == {"plain": 0}
    names = {file.name for file in (tmp_path / "plain").iterdir() if KEY.encode() in file.read_bytes()}
    assert names >= {"agentrail.db", "events", "log", "steps"}


def test_a_process_that_is_killed_between_acceptance_and_hook_leaves_no_key(tmp_path: Path) -> None:
    assert lived(tmp_path, "hook") == {"hook": -9}
    remaining = bytes_in(tmp_path / "hook")
    assert {file.name for file in (tmp_path / "hook").iterdir()} >= {
        "agentrail.db",
        "agentrail.db-wal",
        "agentrail.db-shm",
    }
    assert f"queued {MASK}".encode() in remaining
    assert KEY.encode() not in remaining


@pytest.mark.campaign
def test_a_process_that_is_killed_anywhere_leaves_no_key(tmp_path: Path) -> None:
    places = [f"{point.name}:{times}" for point in POINTS for times in TIMES]
    statuses = lived(tmp_path, *places)
    assert set(statuses.values()) <= {0, -9}
    assert list(statuses.values()).count(-9) >= len(places) // 2
    assert {index for index in places if KEY.encode() in bytes_in(tmp_path / index)} == set()

"""A commit that stands in the log although its sync has failed: a crash may bring it up, and nothing else ever does."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from agentrail.errors import Fenced, JournalFailed
from agentrail.journals import Claim, SqliteJournal
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.sick import Connection, connecting, sqlite_error
from tests.kit import opened, prompted, run_of

pytestmark = pytest.mark.long


class Standing(Connection):
    """A connection whose commits fail, and stand whole in the log all the same.

    They are written by another connection, to a copy of the file and its log, and their frames are put in their place.
    """

    path: Path
    failures = 0
    end: int
    """Where the last commit that succeeded ends in the log, from the first failure on."""
    log_cannot_be_cut = False
    said: list[tuple[str, object]]
    crashes: list[Path]

    def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
        kind = type(self)
        if sql == "BEGIN IMMEDIATE":
            kind.said = []
        if sql == "COMMIT" and kind.failures:
            kind.failures -= 1
            self._stand()
            super().execute("ROLLBACK")
            kind.crashes.append(copied(kind.path, f"crash {len(kind.crashes)}"))
            raise sqlite_error("SQLITE_IOERR_FSYNC")
        if "TRUNCATE" in sql and kind.log_cannot_be_cut:
            raise sqlite_error("SQLITE_CANTOPEN")
        kind.said.append((sql, parameters))
        return super().execute(sql, parameters)

    def _stand(self) -> None:
        kind = type(self)
        log = Path(f"{kind.path}-wal")
        copy = copied(kind.path, f"twin {kind.failures}")
        kind.end = min(kind.end, log.stat().st_size)
        if kind.end:
            os.truncate(f"{copy}-wal", kind.end)
        twin = sqlite3.connect(copy, isolation_level=None)
        twin.execute("PRAGMA wal_autocheckpoint = 0")
        for sql, parameters in kind.said:
            twin.execute(sql, parameters)  # type: ignore[arg-type]
        twin.execute("COMMIT")
        frames = Path(f"{copy}-wal").read_bytes()[kind.end :]
        twin.close()
        assert frames
        with log.open("r+b") as file:
            file.seek(kind.end)
            file.write(frames)


def copied(path: Path, name: str) -> Path:
    """Copy the journal and its log as a crash would leave them, and return where.

    Another process does that: closing a descriptor of the file would take SQLite's locks away.
    """
    folder = path.with_name(name)
    folder.mkdir()
    beside = [str(each) for each in (path, Path(f"{path}-wal")) if each.exists()]
    subprocess.run(["cp", *beside, str(folder)], check=True)  # noqa: S603, S607 - our own words
    return folder / path.name


def uncut(copy: Path, before: Path) -> None:
    """Put behind the log of *copy* what stood there *before*."""
    log = Path(f"{copy}-wal")
    written = log.read_bytes()
    log.write_bytes(written + Path(f"{before}-wal").read_bytes()[len(written) :])


async def head_in(copy: Path) -> int:
    """Return the number of the last record that the next process finds in files that a crash has left."""
    journal = SqliteJournal(copy)
    head = (await journal.claim("s", "test")).head
    await journal.close()
    return head


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agentrail.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqliteJournal]:
    Standing.path, Standing.said, Standing.crashes, Standing.end = path, [], [], sys.maxsize
    journal = SqliteJournal(path, connect=connecting(Standing))
    yield journal
    Standing.failures, Standing.log_cannot_be_cut = 0, False
    await journal.close()


async def test_a_failed_commit_does_not_appear_after_it_was_taken_back(journal: SqliteJournal, path: Path) -> None:
    claim = await opened(journal, "s")
    Standing.failures = 1
    await raised(JournalFailed, journal.append(claim, 3, run_of("s", 4, 1)))
    await opened(journal, "other")  # whatever comes next finds it taken back
    assert await head_in(copied(path, "before")) == 3
    assert await journal.append(claim, 3, [prompted("s", 4, "another")]) == 4
    assert await journal.read("s", 3) == (prompted("s", 4, "another"),)
    assert await head_in(copied(path, "after")) == 4


async def test_a_log_that_was_cut_does_not_bring_the_commit_up_if_a_power_cut_undoes_the_cut(
    journal: SqliteJournal, path: Path
) -> None:
    claim = await opened(journal, "s")
    Standing.failures = 1
    await raised(JournalFailed, journal.append(claim, 3, run_of("s", 4, 1)))
    await raised(Fenced, journal.append(Claim("s", 99, 3), 3, run_of("s", 4, 1)))  # by now it is taken back
    now = copied(path, "now")
    uncut(now, Standing.crashes[0])
    assert await head_in(now) == 3


async def test_until_it_is_taken_back_it_is_seen_by_nobody_but_who_opens_the_journal_after_a_crash(
    journal: SqliteJournal, path: Path
) -> None:
    claim = await opened(journal, "s")
    Standing.failures, Standing.log_cannot_be_cut = 1, True
    await raised(JournalFailed, journal.append(claim, 3, run_of("s", 4, 1)))
    assert await journal.read("s") == run_of("s", 1, 3)
    for _ in range(3):
        error = await raised(JournalFailed, journal.append(claim, 3, run_of("s", 4, 1)))
        assert "could not take back a commit that failed (made up: SQLITE_CANTOPEN" in str(error)
    assert await head_in(copied(path, "now")) == 4, "as after a power cut in the middle of a commit"
    Standing.log_cannot_be_cut = False
    assert await journal.append(claim, 3, [prompted("s", 4, "another")]) == 4
    assert await journal.read("s", 3) == (prompted("s", 4, "another"),)


@pytest.mark.parametrize("failures", range(1, 8))
async def test_commits_that_fail_again_and_again_never_look_like_damage(journal: SqliteJournal, failures: int) -> None:
    """Each shorter than the one before it, they would stand in the log like commits after a torn one."""
    claim = await opened(journal, "s")
    Standing.failures = failures
    sizes = iter((200_000, 100_000, 50_000, 25_000, 12_000, 6_000, 1, 1))
    head = 3
    while head == 3:
        with suppress(JournalFailed):
            head = await journal.append(claim, 3, [prompted("s", 4, "x" * next(sizes))])
    assert (len(Standing.crashes), Standing.failures) == (failures, 0)
    assert await journal.append(claim, 4, run_of("s", 5, 1)) == 5
    assert [await head_in(crash) for crash in Standing.crashes if await head_in(crash) not in {3, 4}] == []

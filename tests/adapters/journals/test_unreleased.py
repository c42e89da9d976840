"""What was written before the first release is refused by a sentence that names who reads it, and is not changed."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from agentrail.cli.journal_file import is_export_file
from agentrail.codec.versions import UNRELEASED
from agentrail.errors import BadArchive, JournalUnusable
from agentrail.journals import MemoryJournal, SqliteJournal, import_session
from agentrail.testing.conformance.expected_errors import raised

ARJL = 0x41524A4C
"""The `application_id` of a file from before the first release."""

HEAD = b'{"kind":"agentrail session","version":%d,"session":"s"}\n'
"""The first line of an export from before the first release."""


def unreleased(path: Path, version: int) -> sqlite3.Connection:
    """Make a file like those from before the first release; return a connection to it, with its log."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN")
    db.execute("CREATE TABLE journal (version INTEGER NOT NULL)")
    db.execute(f"PRAGMA application_id = {ARJL}")
    db.execute(f"PRAGMA user_version = {version}")
    db.execute("COMMIT")
    return db


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


async def check_refused(folder: Path) -> None:
    path = folder / "agentrail.db"
    before = await trio.to_thread.run_sync(contents, folder)
    for doing in (SqliteJournal.sessions, lambda journal: journal.claim("s", "test")):
        journal = SqliteJournal(path)
        assert UNRELEASED in str(await raised(JournalUnusable, doing(journal)))
        await journal.close()
    assert await trio.to_thread.run_sync(contents, folder) == before


@pytest.mark.parametrize("version", range(7))
async def test_a_journal_from_before_the_first_release_is_refused_whatever_its_version(
    version: int, tmp_path: Path
) -> None:
    with closing(unreleased(tmp_path / "agentrail.db", version)):
        await check_refused(tmp_path)  # its tables are in the log
    await check_refused(tmp_path)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_an_export_from_before_the_first_release_is_refused_whatever_its_version(
    version: int, tmp_path: Path
) -> None:
    file, journal = tmp_path / "session.jsonl", MemoryJournal()
    lines = HEAD % version + b'{"check":"00","format":1,"record":{}}\n{"check":"00","end":1}\n'
    file.write_bytes(lines)  # noqa: ASYNC240 - nobody else waits
    assert is_export_file(file)
    assert f"line 1: {UNRELEASED}" in str(await raised(BadArchive, import_session(journal, file)))
    assert await journal.sessions() == ()
    other = SqliteJournal(file)
    assert "it is an export file" in str(await raised(JournalUnusable, other.sessions()))
    await other.close()
    assert file.read_bytes() == lines  # noqa: ASYNC240

"""What fails is told by name: nothing was written, it may have been, or the file is none of ours."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from agentrail.adapters.journals.sql.journal_files import CAN_LOCK
from agentrail.adapters.journals.sql.sql_journal import SqlJournal
from agentrail.adapters.journals.sql.sql_tables import VERSION
from agentrail.adapters.journals.sql.sqlite_dialect import SqliteDialect
from agentrail.adapters.journals.sql.sqlite_tables import APPLICATION, TABLES
from agentrail.errors import (
    BadRecord,
    CommitUnknown,
    JournalError,
    JournalFailed,
    JournalFull,
    JournalLinked,
    JournalUnusable,
    NothingWritten,
)
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.sick import Connection, connecting, sqlite_error
from tests.kit import opened, prompted, run_of
from tests.patience import PATIENCE


class Failing(Connection):
    """A connection that fails as the test says."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agentrail.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqlJournal]:
    journal = SqlJournal(SqliteDialect(path, connect=connecting(Failing)))
    yield journal
    Failing.failing = staticmethod(lambda _: None)
    await journal.close()


def fail(statement: str, code: str, times: int = 1) -> None:
    """Let the next statements that begin so fail."""
    left = [code] * times

    def failing(sql: str) -> Exception | None:
        return sqlite_error(left.pop()) if left and sql.startswith(statement) else None

    Failing.failing = staticmethod(failing)


@pytest.mark.parametrize(
    ("statement", "code", "error"),
    [
        ("BEGIN IMMEDIATE", "SQLITE_BUSY", NothingWritten),
        ("INSERT INTO record", "SQLITE_FULL", JournalFull),
        ("INSERT INTO record", "SQLITE_IOERR", NothingWritten),
        ("COMMIT", "SQLITE_FULL", JournalFull),
        ("COMMIT", "SQLITE_BUSY", NothingWritten),
        ("COMMIT", "SQLITE_IOERR", JournalFailed),
        ("COMMIT", "SQLITE_IOERR_FSYNC", JournalFailed),
        ("INSERT INTO record", "SQLITE_CORRUPT", BadRecord),
    ],
)
async def test_a_write_that_fails_is_told_by_name_and_can_be_repeated(
    journal: SqlJournal, statement: str, code: str, error: type[JournalError]
) -> None:
    claim = await opened(journal, "s")
    fail(statement, code)
    assert type(await raised(error, journal.append(claim, 3, run_of("s", 4, 1)))) is error
    assert await journal.read("s") == run_of("s", 1, 3)
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
    assert await journal.read("s") == run_of("s", 1, 4)


async def test_one_call_that_fails_does_not_harm_those_that_wait_with_it(journal: SqlJournal) -> None:
    claim = await opened(journal, "s")
    other = await opened(journal, "t")
    await raised(BadRecord, journal.append(claim, 3, (prompted("s", 9),)))
    fail("INSERT INTO record", "SQLITE_CORRUPT")
    await raised(BadRecord, journal.append(claim, 3, run_of("s", 4, 1)))
    assert await journal.append(other, 3, run_of("t", 4, 1)) == 4


async def test_after_a_sync_that_failed_under_earlier_commits_nothing_more_is_written(path: Path) -> None:
    """With `sync="normal"`, a checkpoint syncs the log: what it held may be lost, and only who opens it anew knows."""
    journal = SqlJournal(SqliteDialect(path, sync="normal", connect=connecting(Failing)))
    fail("PRAGMA wal_checkpoint", "SQLITE_IOERR_FSYNC", 100)
    await journal.claim("s", "test")
    await raised(CommitUnknown, journal.claim("t", "test"))
    await raised(CommitUnknown, journal.claim("s", "test"))
    Failing.failing = staticmethod(lambda _: None)
    await raised(CommitUnknown, journal.claim("s", "test"))
    await journal.close()
    assert (await journal.claim("s", "test")).head == 0
    await journal.close()


async def test_a_file_that_was_removed_or_replaced_is_not_written(journal: SqlJournal, path: Path) -> None:
    claim = await opened(journal, "s")
    path.rename(path.with_name("away.db"))  # noqa: ASYNC240 - nobody else waits
    assert "removed" in str(await raised(JournalUnusable, journal.append(claim, 3, run_of("s", 4, 1))))
    path.write_bytes(b"")  # noqa: ASYNC240
    assert "put in its place" in str(await raised(JournalUnusable, journal.append(claim, 3, run_of("s", 4, 1))))
    path.unlink()  # noqa: ASYNC240
    path.with_name("away.db").rename(path)
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4


async def test_a_file_with_two_names_is_refused(path: Path) -> None:
    journal = SqlJournal(SqliteDialect(path))
    await opened(journal, "s")
    await journal.close()
    path.with_name("other.db").hardlink_to(path)
    await raised(JournalLinked, journal.claim("s", "test"))
    await raised(JournalLinked, journal.read("s"))
    await journal.close()


async def test_a_file_of_another_program_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE record (x)")
    journal = SqlJournal(SqliteDialect(path))
    await raised(JournalUnusable, journal.claim("s", "test"))
    await raised(JournalUnusable, journal.read("s"))
    await journal.close()


async def test_a_trigger_that_somebody_has_added_is_refused(path: Path) -> None:
    journal = SqlJournal(SqliteDialect(path))
    await opened(journal, "s")
    await journal.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record; END")
    await raised(JournalUnusable, journal.claim("s", "test"))
    await raised(JournalUnusable, journal.read("s"))
    await journal.close()


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
async def test_a_file_in_another_encoding_is_refused(path: Path, encoding: str) -> None:
    """A journal that somebody has copied into a database with another encoding."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA encoding = '{encoding}'")
        for statement in TABLES:
            db.execute(statement)
        db.execute("INSERT INTO meta VALUES (?, 0)", (VERSION,))
        db.commit()
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")
    journal = SqlJournal(SqliteDialect(path))
    assert encoding in str(await raised(JournalUnusable, journal.claim("s", "test")))
    assert encoding in str(await raised(JournalUnusable, journal.read("s")))
    await journal.close()


async def test_a_pipe_in_the_place_of_the_file_is_refused_and_nobody_waits(path: Path) -> None:
    os.mkfifo(path)
    journal = SqlJournal(SqliteDialect(path))
    await raised(JournalUnusable, journal.claim("s", "test"))
    await raised(JournalUnusable, journal.read("s"))
    await journal.close()


@pytest.mark.long
@pytest.mark.skipif(not CAN_LOCK, reason="the kernel has no locks that belong to a descriptor")
async def test_a_file_that_a_process_has_open_under_another_name_is_refused(path: Path) -> None:
    """SQLite's log lies beside the name: what is in it would be missed."""
    journal = SqlJournal(SqliteDialect(path))
    claim = await opened(journal, "s")
    path.rename(path.with_name("new.db"))  # noqa: ASYNC240 - nobody else waits
    code = "import sys, trio; from agentrail.adapters.journals.sql import sql_journal, sqlite_dialect; "
    code += "trio.run(sql_journal.SqlJournal(sqlite_dialect.SqliteDialect(sys.argv[1])).claim, 's', 'test')"
    command = [sys.executable, "-c", code, str(path.with_name("new.db"))]
    done = subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: ASYNC221, S603 - our own program
    assert "JournalLinked" in done.stderr
    assert "under which another process has it open" in done.stderr
    path.with_name("new.db").rename(path)
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4


async def test_a_file_that_gives_no_pages_back_is_cleaned_too(path: Path) -> None:
    journal = SqlJournal(SqliteDialect(path))
    await journal.append(await journal.claim("s", "test"), 0, [prompted("s", 1, "a word of hers " * 9000)])
    await opened(journal, "t")
    await journal.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in ("journal_mode = DELETE", "auto_vacuum = NONE"):
            db.execute(f"PRAGMA {statement}")
        db.execute("VACUUM")
    with trio.fail_after(PATIENCE):
        assert await journal.delete("s", "", 0) == 1
    assert await journal.read("t") == run_of("t", 1, 3)
    await journal.close()
    assert b"a word of hers" not in path.read_bytes()  # noqa: ASYNC240 - nobody else waits

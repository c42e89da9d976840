"""A file of the tables of version 4 is converted at its first opening, wherever the process is killed meanwhile."""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import trio

from agentrail import State
from agentrail.adapters.file_lock import open_lock_file, try_lock_file
from agentrail.adapters.journals.sql.conversion import convert_old
from agentrail.adapters.journals.sql.sqlite_dialect import SqliteDialect
from agentrail.errors import BadRecord, Fenced, JournalFull, JournalInUse, JournalUnusable, NothingWritten
from agentrail.journals import Claim, Journal, Latest, Record, SqliteJournal, StoredSession
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.sampling import READ, SAMPLES
from tests.adapters.journals.test_deleting import BY, is_whole, talked
from tests.kit import Failpoint, Setup, prompted, run_of, watching
from tests.recovery.eraser import NOTE, canary

OLD = SAMPLES / "tables-4"
REACHED = 77

Contents = tuple[tuple[StoredSession, ...], list[tuple[Record, ...]], list[Latest], list[object]]


async def contents(journal: Journal) -> Contents:
    """Return all that is found in a journal."""
    sessions = await journal.sessions()
    names = [session.session_id for session in sessions]
    records = [await journal.read(name) for name in names]
    commands = [record.command for records_ in records for record in records_ if record.command]
    answers: list[object] = [await journal.answer(name, command) for name in names for command in commands[:5]]
    return sessions, records, [await journal.latest(name) for name in names], answers


async def expected(folder: Path) -> Contents:
    """Write what the old file has into a new one, and return what is found there."""
    journal = SqliteJournal(folder / "new.db")
    await talked(journal, "talked", 70, 2)
    await talked(journal, "long", 3, 1_200)
    opening = State("child", Setup(path=("talked", "c1")), "demo")
    claim = await journal.claim("child", "test")
    await journal.append(claim, 0, (prompted("child", 1, opening=opening, due=7, at_work=True),))
    await talked(journal, "redacted", 10)
    await journal.redact("redacted", 2, 5, NOTE, "")
    await talked(journal, "talked", 5, 2)
    found = await contents(journal)
    await journal.close()
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of version 4, with a deleted session, a redacted one, and its last records in the log."""
    return Path(shutil.copytree(OLD, tmp_path / "journal")) / "agentrail.db"


async def test_all_that_was_there_is_there(path: Path, tmp_path: Path) -> None:
    journal = SqliteJournal(path)
    assert await contents(journal) == await expected(tmp_path)
    old = Claim("talked", 1, 75)
    await raised(Fenced, journal.append(old.but(epoch=0), 75, run_of("talked", 76, 1)))
    claim = await journal.claim("talked", "test")
    assert claim.epoch > old.epoch
    assert await journal.append(claim, 75, run_of("talked", 76, 1)) == 76
    assert await journal.delete("talked", *BY) == 2
    await journal.close()
    assert is_whole(path)
    left = path.read_bytes()  # noqa: ASYNC240 - nobody else waits
    assert not [name for name in ("gone", "talked") if canary(name).encode() in left]
    assert [file.name for file in path.parent.iterdir() if "convert" in file.name] == []


async def test_a_file_that_a_process_of_an_earlier_version_has_open_is_not_converted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrail.adapters.journals.sql.conversion.PATIENCE", 0.1)
    lock = open_lock_file(path.with_name("agentrail.db.lock"))
    assert try_lock_file(lock)
    os.write(lock, b"process 7")
    before = path.read_bytes()  # noqa: ASYNC240 - nobody else waits
    journal = SqliteJournal(path)
    for doing in (journal.claim("s", "test"), journal.read("s")):
        assert "process 7" in str(await raised(JournalInUse, doing))
    assert path.read_bytes() == before  # noqa: ASYNC240
    os.close(lock)
    assert (await journal.claim("talked", "test")).head == 75
    await journal.close()


async def test_the_new_file_belongs_to_whom_the_old_one_did(path: Path) -> None:
    path.chmod(0o660)  # noqa: ASYNC240 - nobody else waits
    if os.getuid() == 0:
        os.chown(path, 1234, 1235)
    before = path.stat()  # noqa: ASYNC240
    journal = SqliteJournal(path)
    assert len(await journal.sessions()) == 4
    await journal.close()
    after = path.stat()  # noqa: ASYNC240
    lock = path.with_name("agentrail.db.lock").stat()  # noqa: ASYNC240
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert (lock.st_uid, lock.st_gid, lock.st_size) == (before.st_uid, before.st_gid, 0)


async def test_another_user_does_not_convert_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    journal = SqliteJournal(path)
    error = await raised(JournalUnusable, journal.sessions())
    await journal.close()
    assert "another user, who has to open it first" in str(error)
    assert not path.with_name("agentrail.db.lock").exists()  # noqa: ASYNC240 - nobody else waits


async def test_a_conversion_that_fails_leaves_nothing_beside_the_old_file(path: Path) -> None:
    journal = SqliteJournal(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM record").fetchone()
        error = await raised(NothingWritten, journal.claim("talked", "test"))
        assert "database is locked" in str(error)
    assert [file.name for file in path.parent.iterdir() if "convert" in file.name] == []
    assert (await journal.claim("talked", "test")).head == 75
    await journal.close()


async def test_without_space_for_the_new_file_it_is_an_outage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    journal = SqliteJournal(path)
    with monkeypatch.context() as full:
        full.setattr("agentrail.adapters.journals.sql.conversion.make_file", fail)
        for doing in (journal.sessions(), journal.claim("talked", "test")):
            await raised(JournalFull, doing)
    assert (await journal.claim("talked", "test")).head == 75
    await journal.close()


async def test_who_waits_for_a_conversion_is_told_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrail.adapters.journals.sql.conversion.PATIENCE", 0.1)
    told: list[str] = []

    def look(failpoint: Failpoint) -> None:
        if failpoint.name == "FILE_LOCKED":
            with pytest.raises(JournalInUse) as error:
                convert_old(path)
            told.append(str(error.value))

    with watching(look):
        convert_old(path)
    assert f"process {os.getpid()}, which converts it" in told[0]


@pytest.mark.long
async def test_of_processes_that_begin_together_one_converts_the_file(path: Path) -> None:
    code = "import sys, trio; from agentrail.journals import SqliteJournal; "
    code += "trio.run(SqliteJournal(sys.argv[1]).claim, 'talked', 'test')"
    command = [sys.executable, "-c", code, str(path)]
    processes = [subprocess.Popen(command) for _ in range(3)]  # noqa: ASYNC220, S603 - our own program
    assert [process.wait() for process in processes] == [0, 0, 0]  # noqa: ASYNC222


async def test_damage_is_found_as_before(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()  # noqa: ASYNC240 - nobody else waits
    path.write_bytes(content.replace(canary("talked").encode() * 2 + b'"', canary("tolked").encode() * 2 + b'"'))  # noqa: ASYNC240
    journal = SqliteJournal(path)
    await raised(BadRecord, journal.read("talked"))
    assert len(await journal.read("long")) == 3
    await journal.close()


@pytest.mark.long
async def test_a_process_that_is_killed_leaves_a_whole_file(path: Path, tmp_path: Path) -> None:
    before = await expected(tmp_path)
    place = 0
    status = REACHED
    while status == REACHED:
        place += 1
        copy = Path(shutil.copytree(path.parent, tmp_path / f"killed-{place}")) / path.name
        child = os.fork()
        if not child:
            reached = 0

            def watch(_: Failpoint, place: int = place) -> None:
                nonlocal reached
                reached += 1
                if reached == place:
                    os._exit(REACHED)

            with watching(watch):
                SqliteDialect(copy).connect()
            os._exit(0)
        _, waited = os.waitpid(child, 0)  # noqa: ASYNC222 - nothing else runs here
        status = os.waitstatus_to_exitcode(waited)
        journal = SqliteJournal(copy)
        assert await contents(journal) == before, place
        await journal.close()
        assert [file.name for file in copy.parent.iterdir() if "convert" in file.name] == []
    assert (status, place > 8) == (0, True)


@pytest.mark.parametrize("folder", READ, ids=lambda folder: folder.name)
async def test_samples_of_earlier_formats_come_back(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    for path in await trio.to_thread.run_sync(lambda: sorted(copy.glob("*.db"))):
        journal = SqliteJournal(path)
        sessions, records, _, _ = await contents(journal)
        assert [len(records_) for records_ in records] == [session.head for session in sessions] != []
        await journal.close()

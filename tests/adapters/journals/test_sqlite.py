"""What is SQLite's own: files, owners, the disk, and jobs that others wait for."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from shutil import copy
from typing import Literal

import pytest
import trio

from agentrail import State
from agentrail.adapters.journals.sql import writer
from agentrail.adapters.journals.sql.sql_tables import VERSION
from agentrail.adapters.journals.sql.sqlite_tables import PAGE_SIZE
from agentrail.adapters.journals.sql.stored_rows import SessionColumns
from agentrail.adapters.journals.writer_thread import WriterJob, WriterThread
from agentrail.adapters.user_folders import home
from agentrail.errors import (
    AgentrailError,
    BadChoice,
    BadRecord,
    BadValue,
    CommitUnknown,
    Fenced,
    JournalFailed,
    JournalFull,
    JournalUnusable,
    NothingWritten,
    SessionHeld,
    WrongType,
)
from agentrail.journals import Lease, Snapshot, SqliteJournal
from agentrail.models import Text
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.sick import Connection, connecting, sqlite_error
from tests.kit import Arrival, PromptSent, Setup, opened, prompted, run_of
from tests.passes import Passes


def change(path: Path, *statements: str) -> None:
    """Change a journal behind its back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement)


KEY = "(SELECT key FROM session WHERE id = CAST('{}' AS BLOB))"
"""The number of a session in the other tables."""


def modes(folder: Path) -> dict[str, int]:
    """Return who may do what with a folder and the files in it."""
    files = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}
    return {"": folder.stat().st_mode & 0o777, **files}


def foreign(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def content(path: Path) -> bytes:
    return path.read_bytes()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o700)
    return folder / "agentrail.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqliteJournal]:
    journal = SqliteJournal(path)
    yield journal
    await journal.close()


# Files


async def test_only_its_owner_can_look_into_it(journal: SqliteJournal, path: Path) -> None:
    await opened(journal, "s")
    files = ("agentrail.db", "agentrail.db-wal", "agentrail.db-shm")
    assert modes(path.parent) == {"": 0o700, **dict.fromkeys(files, 0o600)}


async def test_the_users_own_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "data" / "own"))
    for path in (None, tmp_path / "data" / "own" / "other.db"):
        journal = SqliteJournal(path)
        await opened(journal, "s")
        await journal.close()
    assert modes(tmp_path / "data" / "own") == {"": 0o700, "agentrail.db": 0o600, "other.db": 0o600}


async def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "data" / "agentrail.db")
    await raised(JournalUnusable, journal.claim("s", "test"))
    await journal.close()
    assert not (tmp_path / "data").exists()


async def test_a_closed_journal_is_one_file(journal: SqliteJournal, path: Path) -> None:
    await opened(journal, "s")
    assert await journal.read("s") == run_of("s", 1, 3)
    await journal.close()
    assert modes(path.parent).keys() == {"", "agentrail.db"}
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_by_default_there_is_one_per_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTRAIL_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert SqliteJournal().path == Path("/data/agentrail/agentrail.db")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/her")
    assert SqliteJournal().path == Path("/home/her/.local/share/agentrail/agentrail.db")
    monkeypatch.setenv("AGENTRAIL_HOME", "~/elsewhere")
    assert home() == Path("/home/her/elsewhere")
    assert SqliteJournal().path == Path("/home/her/elsewhere/agentrail.db")
    assert SqliteJournal("here.db").path == Path.cwd() / "here.db"


def test_nothing_is_made_before_it_is_used(path: Path) -> None:
    assert not SqliteJournal(path).path.exists()


async def test_reading_makes_no_file(journal: SqliteJournal, path: Path) -> None:
    assert await journal.sessions() == ()
    assert modes(path.parent).keys() == {""}


def test_what_is_no_choice_is_refused() -> None:
    with pytest.raises(BadChoice, match="sync"):
        SqliteJournal("x", sync="off")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def test_closing_gives_back_threads_and_descriptors(path: Path) -> None:
    gc.collect()
    threads, descriptors = set(threading.enumerate()), open_descriptors()
    for number in range(5):
        journal = SqliteJournal(path)
        await opened(journal, f"s{number}")
        assert await journal.read(f"s{number}") == run_of(f"s{number}", 1, 3)
        await journal.close()
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)
        assert not thread.is_alive()
    assert open_descriptors() == descriptors


def cached_rows() -> int:
    """Return how many rows of sessions are in memory."""
    return sum(type(value) is SessionColumns for value in gc.get_objects())


async def test_of_many_sessions_few_rows_are_in_memory_and_of_a_closed_journal_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "ROWS_KEPT", 5)
    before = cached_rows()
    journal = SqliteJournal(path)
    for number in range(20):
        await journal.claim(f"s{number}", "test")
    assert cached_rows() - before <= 6
    await journal.close()
    assert cached_rows() == before


def of_another_program(path: Path) -> None:
    foreign(path, b"")
    change(path, "CREATE TABLE theirs (x)")


def with_a_log_of_its_own(path: Path) -> None:
    foreign(path, b"")
    change(path, "PRAGMA journal_mode = WAL", "CREATE TABLE theirs (x)")


def cut(path: Path) -> None:
    whole = path.with_name("whole.db")
    trio.run(_written, whole)
    foreign(path, whole.read_bytes()[:-PAGE_SIZE])


async def _written(path: Path) -> None:
    journal = SqliteJournal(path)
    await opened(journal, "s")
    await journal.close()


NO_JOURNALS: dict[str, tuple[Callable[[Path], None], str]] = {
    "text": (
        lambda path: foreign(path, b"my diary " * 1000),
        "begins with b'my diary my diary my dia'; give another path",
    ),
    "a line": (lambda path: foreign(path, b"hello\n"), "begins with b'hello"),
    "json": (lambda path: foreign(path, b'{"a": [1, 2, 3]}'), 'it is not a database, but begins with b\'{"a": [1'),
    "archive": (
        lambda path: foreign(path, b'{"kind":"agentrail export","version":1}'),
        "read it into a journal by `agentrail journal copy`",
    ),
    "zeros": (lambda path: foreign(path, bytes(8192)), "it is not a database"),
    "another database": (of_another_program, "it is a file of another program; give another path"),
    "another log": (with_a_log_of_its_own, "it is a file of another program; give another path"),
    "folder": (Path.mkdir, "it is a folder; give the path of a file in it"),
    "pipe": (os.mkfifo, "it is no regular file; give another path"),
    "head alone": (
        lambda path: foreign(path, b"SQLite format 3\0" + bytes(90)),
        "its end is missing, of at least 512 bytes 106",
    ),
    "cut": (cut, "its end is missing, of "),
}


def beside(path: Path) -> dict[str, bytes]:
    """Return what is in the folder of a file, but for the copies that tests make."""
    found = (each for each in path.parent.iterdir() if each.is_file() and each.name != "whole.db")
    return {each.name: each.read_bytes() for each in found}


@pytest.mark.parametrize("what", NO_JOURNALS)
def test_a_file_that_is_no_journal_says_so_and_is_left_alone(path: Path, what: str) -> None:
    """Neither it nor anything beside it is changed, whoever opens it first: one who reads or one who writes."""
    make, said = NO_JOURNALS[what]
    path.parent.mkdir(exist_ok=True)
    make(path)
    before = beside(path)

    async def look() -> None:
        for call in (lambda journal: journal.claim("s", "test"), SqliteJournal.sessions):
            journal = SqliteJournal(path)
            error = str(await raised(JournalUnusable, call(journal)))
            await journal.close()
            assert error.startswith(f"the journal `{path}` cannot be used: ")
            assert said in error
            assert beside(path) == before

    trio.run(look)


async def test_an_empty_file_is_a_journal_that_is_about_to_be_made(path: Path) -> None:
    """A process that is killed just then leaves it."""
    foreign(path, b"")
    journal = SqliteJournal(path)
    assert await journal.sessions() == ()
    await opened(journal, "s")
    assert len(await journal.sessions()) == 1
    await journal.close()


async def test_what_cannot_be_closed_says_so_and_nobody_waits_for_ever(path: Path) -> None:
    class Stubborn(Connection):
        def close(self) -> None:
            super().close()
            raise sqlite_error("SQLITE_IOERR")

    journal = SqliteJournal(path, connect=connecting(Stubborn))
    with trio.fail_after(30):
        await opened(journal, "s")
        with pytest.raises(sqlite3.Error):
            await journal.close()


async def test_a_journal_of_a_newer_version_is_refused_and_not_changed(journal: SqliteJournal, path: Path) -> None:
    await opened(journal, "s")
    await journal.close()
    change(path, f"PRAGMA user_version = {VERSION + 1}")
    before = content(path)
    for doing in (journal.claim("s", "test"), journal.read("s")):
        error = str(await raised(JournalUnusable, doing))
        assert f"version {VERSION + 1}" in error
        assert "use the agentrail that has written it" in error
    await journal.close()
    assert content(path) == before


async def test_a_folder_in_the_place_of_the_file_is_no_full_disk(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    for doing in (journal.sessions(), journal.read("s"), journal.claim("s", "test")):
        await raised(JournalUnusable, doing)
    await journal.close()


async def test_a_place_where_nothing_can_be_made_is_an_error(tmp_path: Path) -> None:
    foreign(tmp_path / "file", b"x")
    journal = SqliteJournal(tmp_path / "file" / "a.db")
    error = await raised(JournalUnusable, journal.claim("s", "test"))
    await journal.close()
    assert "Not a directory" in str(error)


# Owners


async def test_two_writers_of_one_file_do_not_harm_one_another(journal: SqliteJournal, path: Path) -> None:
    claim = await opened(journal, "s")
    second = SqliteJournal(path)
    other = await opened(second, "t")
    assert await second.read("s") == run_of("s", 1, 3)
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
    assert await second.append(other, 3, run_of("t", 4, 1)) == 4
    taken = await second.claim("s", "test")
    assert (taken.head, taken.epoch > claim.epoch) == (4, True)
    await raised(Fenced, journal.append(claim, 4, run_of("s", 5, 1)))
    assert await second.append(taken, 4, run_of("s", 5, 1)) == 5
    assert await journal.read("s") == run_of("s", 1, 5)
    await second.close()


LEASE = 10**15

OTHER_PROCESS = """
import sys, trio
from agentrail.journals import Lease, SqliteJournal
from agentrail.testing.conformance.journal_tests import run_of
async def main():
    journal = SqliteJournal(sys.argv[1])
    claim = await journal.claim("theirs", "them", Lease(0, 10**15))
    await journal.append(claim, 0, run_of("theirs", 1, 3))
    print("ready", flush=True)
    sys.stdin.read()
trio.run(main)
"""


@pytest.mark.long
async def test_a_session_is_free_when_its_process_has_been_killed(path: Path) -> None:
    command = [sys.executable, "-c", OTHER_PROCESS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:  # noqa: S603, ASYNC220
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        journal = SqliteJournal(path)
        with pytest.raises(SessionHeld):
            await journal.claim("theirs", "test", Lease(0, LEASE))
        other.kill()
        other.wait()  # noqa: ASYNC222
    assert (await journal.claim("theirs", "test", Lease(0, LEASE))).head == 3
    await opened(journal, "mine")
    assert await journal.read("theirs") == run_of("theirs", 1, 3)
    assert [stored.session_id for stored in await journal.sessions()] == ["mine", "theirs"]
    await journal.close()


# Its path


@pytest.mark.parametrize("path", ["", "a\0b", "a\ud800b", b"journal.db", 3, Path("a\udcffb")])
def test_what_is_no_path_is_refused(path: object) -> None:
    with pytest.raises(WrongType, match="as `path`; give the path of a file"):
        SqliteJournal(path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (".", "it is a folder; give the path of a file in it"),
        ("x" * 300, "it cannot be opened (File name too long)"),
        ("y/" * 3_000, "or give another path (File name too long)"),
        ("gone/agentrail.db", "/gone`; make it with `mkdir -p`, or give another path"),
        ("file/inside.db", "/file`; make it with `mkdir -p`, or give another path (Not a directory)"),
        ("loop", "it cannot be opened (Too many levels of symbolic links)"),
    ],
)
async def test_a_path_that_leads_to_no_file_says_why(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    journal = SqliteJournal(tmp_path / name)
    assert said in str(await raised(JournalUnusable, journal.claim("s", "test")))
    await journal.close()


async def test_a_file_that_sqlite_cannot_open_says_what_to_give(tmp_path: Path) -> None:
    def connect(*_: object, **_options: object) -> sqlite3.Connection:
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_CANTOPEN, "SQLITE_CANTOPEN"
        raise error

    journal = SqliteJournal(tmp_path / "a.db", connect=connect)
    error = await raised(JournalUnusable, journal.claim("s", "test"))
    assert "it cannot be opened (unable to open database file, SQLITE_CANTOPEN); give the path of a file" in str(error)
    await journal.close()


# The disk


async def test_a_full_disk_refuses_and_is_tried_again(path: Path) -> None:
    limits: list[sqlite3.Connection] = []

    def connect(database: str, **options: object) -> sqlite3.Connection:
        limits.append(sqlite3.connect(database, check_same_thread=False, **options))  # type: ignore[call-overload]
        return limits[-1]

    journal = SqliteJournal(path, connect=connect)
    claim = await opened(journal, "s")
    (pages,) = limits[0].execute("PRAGMA page_count").fetchone()
    limits[0].execute(f"PRAGMA max_page_count = {pages + 2}")
    big = prompted("s", 4, "word " * 10_000)
    error = await raised(JournalFull, journal.append(claim, 3, [big]))
    assert "database or disk is full, SQLITE_FULL" in str(error)
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4, "what has room is written"
    assert await journal.read("s") == run_of("s", 1, 4)
    limits[0].execute("PRAGMA max_page_count = 100000")
    assert await journal.append(claim, 4, [big.but(number=5)]) == 5
    await journal.close()


async def test_while_another_program_locks_the_file_nothing_is_accepted(
    journal: SqliteJournal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrail.adapters.journals.sql.sqlite_dialect.WAIT", 0.01)
    claim = await opened(journal, "s")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    error = await raised(NothingWritten, journal.append(claim, 3, run_of("s", 4, 1)))
    assert f"(database is locked, SQLITE_BUSY: process {os.getpid()} is inside a write; if it hangs, kill it" in str(
        error
    )
    assert not isinstance(error, JournalFull)
    assert await journal.read("s") == run_of("s", 1, 3)
    other.execute("ROLLBACK")
    other.close()
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4


AT_COMMIT = [
    ("SQLITE_FULL", JournalFull),
    ("SQLITE_BUSY", NothingWritten),
    ("SQLITE_IOERR_FSYNC", JournalFailed),
    ("SQLITE_IOERR_WRITE", JournalFailed),
    ("SQLITE_IOERR_SHMSIZE", JournalFailed),
    ("SQLITE_NOMEM", JournalFailed),
    ("SQLITE_CORRUPT", JournalFailed),
]
BEFORE = [
    ("SQLITE_FULL", JournalFull),
    ("SQLITE_IOERR_WRITE", NothingWritten),
    ("SQLITE_READONLY", NothingWritten),
    ("SQLITE_NOMEM", NothingWritten),
    ("SQLITE_CORRUPT", BadRecord),
    ("SQLITE_CONSTRAINT", BadRecord),
]


@pytest.mark.parametrize(
    ("statement", "code", "meant"),
    [("COMMIT", *case) for case in AT_COMMIT] + [("INSERT INTO record", *case) for case in BEFORE],
)
async def test_what_an_error_of_the_disk_means(
    path: Path, statement: str, code: str, meant: type[AgentrailError]
) -> None:
    class Sick(Connection):
        pass

    journal = SqliteJournal(path, connect=connecting(Sick))
    claim = await opened(journal, "s")
    codes = [code]
    Sick.failing = staticmethod(lambda sql: sqlite_error(codes.pop()) if codes and sql.startswith(statement) else None)
    error = await raised(meant, journal.append(claim, 3, run_of("s", 4, 1)))
    assert type(error) is meant
    assert ("space" in str(error)) == (code == "SQLITE_FULL"), "only who has no space is told to make some"
    assert await journal.read("s") == run_of("s", 1, 3)
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
    await journal.close()
    next_one = SqliteJournal(path)
    assert (await next_one.claim("s", "test")).head == 4
    await next_one.close()


async def test_a_journal_in_a_folder_that_cannot_be_written_is_to_be_copied(path: Path) -> None:
    class Sick(Connection):
        failing = staticmethod(lambda _: sqlite_error("SQLITE_READONLY_DIRECTORY"))

    journal = SqliteJournal(path)
    await opened(journal, "s")
    await journal.close()
    in_a_fixed_folder = SqliteJournal(path, connect=connecting(Sick))
    error = await raised(JournalUnusable, in_a_fixed_folder.sessions())
    assert "copy it, with its `-wal` if there is one, to a folder that this process may write" in str(error)
    await in_a_fixed_folder.close()


@pytest.fixture
def fixed(tmp_path: Path) -> Iterator[Path]:
    """A folder that cannot be written."""
    folder = tmp_path / "fixed"
    folder.mkdir(0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("NOT PROVED, because root may write each folder")
    yield folder
    folder.chmod(0o700)


def _put(path: Path, folder: Path) -> Path:
    """Copy a file into *folder*; neither can be written then."""
    file = folder / path.name
    folder.chmod(0o700)
    copy(path, file)
    file.chmod(0o400)
    folder.chmod(0o500)
    return file


async def test_a_copy_of_a_journal_that_nobody_may_write_is_read(path: Path, fixed: Path, tmp_path: Path) -> None:
    journal = SqliteJournal(path)
    await opened(journal, "s")
    await journal.close()
    file = _put(path, fixed)
    journal = SqliteJournal(file)
    assert "copy it" in str(await raised(JournalUnusable, journal.sessions()))
    await journal.close()
    journal = SqliteJournal(copy(file, tmp_path / "copy.db"))
    assert [stored.session_id for stored in await journal.sessions()] == ["s"]
    await journal.close()


async def test_a_commit_that_cannot_be_taken_back_for_damage_ends_all_writing(path: Path) -> None:
    class Sick(Connection):
        pass

    journal = SqliteJournal(path, connect=connecting(Sick))
    claim = await opened(journal, "s")
    Sick.failing = staticmethod(lambda sql: sqlite_error("SQLITE_CORRUPT") if sql == "COMMIT" else None)
    await raised(JournalFailed, journal.append(claim, 3, run_of("s", 4, 1)))
    await raised(CommitUnknown, journal.append(claim, 3, run_of("s", 4, 1)))
    Sick.failing = staticmethod(lambda _: None)
    await raised(CommitUnknown, journal.claim("s", "test"))
    await journal.close()


@pytest.mark.parametrize(
    ("sync", "code", "meant"),
    [
        ("full", "SQLITE_BUSY", None),
        ("full", "SQLITE_IOERR_WRITE", None),
        ("full", "SQLITE_IOERR_FSYNC", None),
        ("full", "SQLITE_CORRUPT", CommitUnknown),
        ("normal", "SQLITE_IOERR_WRITE", None),
        ("normal", "SQLITE_IOERR_FSYNC", CommitUnknown),
    ],
)
async def test_what_an_error_of_a_checkpoint_means(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sync: Literal["full", "normal"],
    code: str,
    meant: type[AgentrailError] | None,
) -> None:
    """It can be made later, unless it says that commits which were answered may be lost."""

    class Sick(Connection):
        pass

    monkeypatch.setattr("agentrail.adapters.journals.sql.sqlite_dialect.CHECKPOINT_AFTER", 0)
    journal = SqliteJournal(path, connect=connecting(Sick), sync=sync)
    claim = await opened(journal, "s")
    codes, begun = [code], list[str]()

    def failing(sql: str) -> Exception | None:
        if sql == "BEGIN IMMEDIATE":  # so that it is no checkpoint of a transaction before
            begun.append(sql)
        return sqlite_error(codes.pop(0)) if codes and begun and "(PASSIVE)" in sql else None

    Sick.failing = staticmethod(failing)
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
    if meant is None:
        assert await journal.append(claim, 4, run_of("s", 5, 1)) == 5
    else:
        await raised(meant, journal.append(claim, 4, run_of("s", 5, 1)))
    assert codes == []
    assert (await journal.read("s"))[:4] == run_of("s", 1, 4), "what was acknowledged is there"
    await journal.close()


async def test_one_that_cannot_be_written_does_not_harm_those_beside_it(path: Path) -> None:
    class Picky(Connection):
        pass

    held = threading.Event()
    journal = SqliteJournal(path, connect=connecting(Picky))
    claims = [await opened(journal, f"s{number}") for number in range(10)]
    ends: dict[str, object] = {}

    async def write(number: int) -> None:
        name = f"s{number}"
        try:
            ends[name] = await journal.append(claims[number], 3, run_of(name, 4, 1))
        except AgentrailError as error:
            ends[name] = error

    def failing(sql: str) -> Exception | None:
        if sql.startswith("BEGIN"):
            held.wait(5)
        return None

    Picky.failing = staticmethod(failing)
    assert len(await journal.read("s0")) == 3  # a file that has a trigger is not opened
    change(
        path,
        f"DELETE FROM record WHERE session = {KEY.format('s3')} AND number = 3",  # noqa: S608
        "CREATE TRIGGER picky BEFORE INSERT ON record WHEN NEW.session = (SELECT key FROM session WHERE id = "
        "CAST('s7' AS BLOB)) BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(write, number)
        await trio.testing.wait_all_tasks_blocked()
        held.set()
    bad = {name: type(end) for name, end in ends.items() if end != 4}
    assert bad == {"s7": BadRecord}
    for number in (0, 1, 2, 4, 5, 6, 8, 9):
        assert await journal.read(f"s{number}") == run_of(f"s{number}", 1, 4)
    assert "record 3 of session `s3` cannot be read: it is lost" in str(await raised(BadRecord, journal.read("s3")))
    await journal.close()


# Waiting


async def test_the_loop_goes_on_while_the_disk_is_slow(path: Path) -> None:
    class Slow(Connection):
        pass

    done = threading.Event()
    journal = SqliteJournal(path, connect=connecting(Slow))
    claim = await opened(journal, "s")

    def failing(sql: str) -> Exception | None:
        if sql == "COMMIT":
            done.wait(10)
        return None

    Slow.failing = staticmethod(failing)
    passes = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.append, claim, 3, run_of("s", 4, 1))
        for _ in range(1000):
            await trio.lowlevel.checkpoint()
            passes += 1
        assert await journal.read("s") == run_of("s", 1, 3), "readers do not wait for the writer"
        done.set()
    assert passes == 1000
    assert await journal.read("s", 3) == run_of("s", 4, 1)
    await journal.close()


async def test_what_is_cancelled_while_it_waits_is_not_written_and_what_is_under_way_is(path: Path) -> None:
    class Slow(Connection):
        pass

    begun, done = threading.Event(), threading.Event()
    journal = SqliteJournal(path, connect=connecting(Slow))
    claims = {name: await opened(journal, name) for name in ("a", "b")}
    ends: dict[str, object] = {}

    def failing(sql: str) -> Exception | None:
        if sql == "COMMIT":
            begun.set()
            done.wait(10)
        return None

    async def write(name: str, scope: trio.CancelScope) -> None:
        ends[name] = "cancelled"
        with scope:
            ends[name] = await journal.append(claims[name], 3, run_of(name, 4, 1))

    Slow.failing = staticmethod(failing)
    scopes = {name: trio.CancelScope() for name in claims}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, "a", scopes["a"])
        await trio.to_thread.run_sync(begun.wait)
        nursery.start_soon(write, "b", scopes["b"])
        await trio.testing.wait_all_tasks_blocked()
        for scope in scopes.values():
            scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        done.set()
    assert ends == {"a": 4, "b": "cancelled"}
    assert len(await journal.read("a")) == 4
    assert len(await journal.read("b")) == 3
    await journal.close()


def test_one_journal_serves_one_run_after_another(path: Path) -> None:
    """Also if those who were answered together do not come back any more."""
    journal = SqliteJournal(path)

    async def together(names: Sequence[str]) -> None:
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(opened, journal, name)

    for number in range(3):
        trio.run(together, [f"s{number}-{each}" for each in range(10)])
    assert len(trio.run(journal.sessions)) == 30
    trio.run(journal.close)


class Counting:
    """Does jobs, and counts how many at a time."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def serve(self, jobs: Sequence[WriterJob[Counting]]) -> None:
        self.sizes.append(len(jobs))
        for job in jobs:
            job.do(self)

    def rest(self) -> None:
        pass

    def close(self) -> None:
        pass


async def test_a_thread_that_cannot_be_started_is_told_and_started_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    journal = SqliteJournal(tmp_path / "agentrail.db")
    with monkeypatch.context() as patch, trio.fail_after(1):
        patch.setattr(threading.Thread, "start", refuse)
        error = await raised(NothingWritten, journal.claim("s", "test"))
        assert "cannot be started: can't start new thread" in str(error)
    claim = await journal.claim("s", "test")
    assert await journal.append(claim, 0, run_of("s", 1, 1)) == 1
    await journal.close()


async def test_those_who_were_answered_together_are_waited_for_until_all_have_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without that, the thread takes one alone while the loop is busy with the next."""
    monkeypatch.setattr("agentrail.adapters.journals.writer_thread.MAX_PATIENCE", 30.0)
    counting = Counting()
    worker = WriterThread("counting", counting, 100)
    all_are_there, never = threading.Event(), threading.Event()

    async def come_back() -> None:
        for _ in range(10):
            await worker.do(lambda _: None)
            never.wait(0.001)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(worker.do, lambda _: all_are_there.wait())
        for _ in range(5):
            nursery.start_soon(come_back)
        await trio.testing.wait_all_tasks_blocked()
        all_are_there.set()
    await worker.close()
    assert sum(counting.sizes) == 51
    assert len(counting.sizes) <= 15, counting.sizes


async def test_whoever_is_held_up_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrail.adapters.journals.writer_thread.MAX_PATIENCE", 0.0)
    counting = Counting()
    worker = WriterThread("counting", counting, 100)
    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(worker.do, lambda _: None)
    for _ in range(200):
        await worker.do(lambda _: None)
    await worker.close()
    assert sum(counting.sizes) == 400


async def test_nobody_waits_for_one_who_was_answered_alone() -> None:
    """The loop went round for nothing, and each answer cost a third more."""
    worker = WriterThread("counting", Counting(), 100)
    await worker.do(lambda _: None)
    rounds = Passes()
    trio.lowlevel.add_instrument(rounds)
    for _ in range(1_000):
        await worker.do(lambda _: None)
    trio.lowlevel.remove_instrument(rounds)
    await worker.close()
    assert rounds.count <= 2_020, rounds.count  # one to hear the answer, and one to go on


async def test_a_job_is_let_go_of_before_its_task_goes_on() -> None:
    """Or all jobs of a commit are still there while their tasks make new ones, and the collector walks through both."""

    class Keeping(Counting):
        def serve(self, jobs: Sequence[WriterJob[Counting]]) -> None:
            super().serve(jobs)
            self.jobs = jobs

    keeping = Keeping()
    worker = WriterThread("keeping", keeping, 100)
    found: list[int] = []

    async def ask(_: int) -> None:
        await worker.do(lambda _: None)
        found.append(len(keeping.jobs))

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(ask, number)
    await worker.close()
    assert found == [0] * 5


async def test_nothing_is_bound_for_which_an_adapter_is_looked_for(path: Path) -> None:
    """Looking takes several times as long as binding."""
    bound: set[type[object]] = set()

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, parameters: Sequence[object] = (), /) -> sqlite3.Cursor:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
            if sql.startswith(("INSERT INTO record", "INSERT INTO session")):
                bound.update(map(type, parameters))
            return super().execute(sql, parameters)  # pyright: ignore[reportArgumentType]

    journal = SqliteJournal(path, connect=partial(sqlite3.connect, factory=Watched))
    claim = await journal.claim("s", "test")
    await journal.append(claim, 0, (prompted("s", 1), prompted("s", 2)))
    await journal.close()
    assert bound == {int, str, bytes, type(None)}
    with closing(sqlite3.connect(path)) as file:
        assert set(file.execute("SELECT typeof(command), typeof(checksum), typeof(body) FROM record")) == {
            ("null", "blob", "blob")
        }
        assert set(file.execute("SELECT typeof(due), typeof(checksum) FROM session")) == {("null", "blob")}


async def test_what_goes_in_one_commit_sees_what_came_before_it(path: Path) -> None:
    class Slow(Connection):
        pass

    begun, done = threading.Event(), threading.Event()
    journal = SqliteJournal(path, connect=connecting(Slow))
    first, other = [await opened(journal, name) for name in ("s", "t")]
    snapshot = Snapshot("s", 4, State("s", Setup(), "demo"))

    def failing(sql: str) -> Exception | None:
        if sql == "COMMIT":
            begun.set()
            done.wait(10)
        return None

    Slow.failing = staticmethod(failing)
    heads: list[int] = []

    async def claim_again() -> None:
        heads.append((await journal.claim("s", "test")).head)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.append, other, 3, run_of("t", 4, 1))
        await trio.to_thread.run_sync(begun.wait)
        for doing in (
            partial(journal.append, first, 3, run_of("s", 4, 1)),
            partial(journal.keep, first, snapshot),
            partial(journal.append, first, 4, run_of("s", 5, 1)),
            claim_again,
        ):
            nursery.start_soon(doing)
            await trio.testing.wait_all_tasks_blocked()
        done.set()
    assert heads == [5]
    assert (await journal.latest("s")).snapshot == snapshot
    assert await journal.read("s") == run_of("s", 1, 5)
    await raised(Fenced, journal.append(first, 5, run_of("s", 6, 1)))
    await journal.close()


async def test_what_cannot_be_written_at_all_is_refused_alone_and_leaves_nothing(journal: SqliteJournal) -> None:
    claim = await opened(journal, "s")
    bad = prompted("s", 5).but(command="half \ud800")
    error = await raised(BadValue, journal.append(claim, 3, [prompted("s", 4, "word " * 20_000), bad]))
    assert "half a surrogate pair" in str(error)
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4


async def test_what_the_file_cannot_hold_fails_alone(journal: SqliteJournal) -> None:
    claim = await opened(journal, "s")
    late = prompted("s", 4, due=2**64 - 1)
    assert await journal.append(claim, 3, [late]) == 4
    (stored,) = await journal.sessions()
    assert stored.due == 2**63 - 1


async def test_a_session_that_begins_after_all_times_is_stored(journal: SqliteJournal) -> None:
    first = prompted("s", 1, opening=State("s", Setup("brief"), "demo"))
    claim = await journal.claim("s", "test")
    assert await journal.append(claim, 0, [first.but(arrival=first.arrival.but(at=2**64 - 1))]) == 1
    (stored,) = await journal.sessions()
    assert (stored.about.created, stored.active) == (2**63 - 1, 2**63 - 1)


async def test_a_changed_head_is_noticed_by_who_reads(journal: SqliteJournal, path: Path) -> None:
    claim = await opened(journal, "s")
    await journal.close()
    change(path, "UPDATE session SET head = 2")
    assert "has changed" in str(await raised(BadRecord, journal.read("s")))
    await raised(BadRecord, journal.append(claim, 2, run_of("s", 3, 1)))


async def test_a_damaged_blob_is_missed_by_who_needs_it(journal: SqliteJournal, path: Path) -> None:
    claim = await opened(journal, "s")
    long = Arrival(PromptSent((Text("word " * 20_000),)), 4)
    await journal.append(claim, 3, [prompted("s", 4).but(arrival=long), prompted("s", 5)])
    changes = {
        "UPDATE blob SET content = x'78'": "is damaged",
        "UPDATE blob SET content = 'text'": "is damaged",
        "DELETE FROM blob": "is missing",
    }
    for statement, problem in changes.items():
        change(path, statement)
        error = await raised(BadRecord, journal.read("s"))
        assert str(error).startswith("record 4 of session `s` cannot be read: the blob ")
        assert str(error).endswith(problem)
        assert await journal.read("s", 4) == (prompted("s", 5),)


async def test_a_claim_without_a_lease_leaves_none(tmp_path: Path) -> None:
    """Each command that writes has a holder of its own: such rows would only become more."""
    path = tmp_path / "a.db"
    journal = SqliteJournal(path)
    for number in range(5):
        await opened(journal, f"s{number}", 1)
    await journal.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        assert file.execute("SELECT * FROM lease").fetchall() == []
        file.execute("INSERT INTO lease (holder, until) VALUES (CAST('older' AS BLOB), 0), (CAST('b' AS BLOB), 9)")
    journal = SqliteJournal(path)
    now = 40 * 86_400_000
    await journal.claim("s0", "me", Lease(now, 500))
    await journal.claim("s1", "you", Lease(now, 500))
    await journal.close()
    with closing(sqlite3.connect(path)) as file:
        assert {holder for (holder,) in file.execute("SELECT holder FROM lease")} == {b"me", b"you"}


async def test_a_journal_that_was_only_read_has_no_log_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    journal = SqliteJournal(path)
    await opened(journal, "s", 1)
    await journal.close()
    before = path.read_bytes()
    reading = SqliteJournal(path)
    assert await reading.sessions()
    await reading.close()
    assert [*beside(path)] == ["a.db"]
    assert path.read_bytes() == before
    writing = SqliteJournal(path)
    await opened(writing, "t", 1)
    log = path.with_name("a.db-wal").read_bytes()
    assert await reading.sessions()
    await reading.close()
    assert path.with_name("a.db-wal").read_bytes() == log  # of another connection nothing is moved
    await writing.close()

"""Files of SQLite from a stranger: what no journal has is refused before any of it is run; what waits can be ended."""

import os
import signal
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail.errors import JournalUnusable
from agentrail.journals import SqliteJournal
from tests.adapters.journals.sick import Connection, connecting
from tests.kit import opened, prompted, run_of
from tests.patience import PATIENCE

ENDLESS: Final = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"

FOREIGN: Final = {
    "a view for a table": (
        "ALTER TABLE session RENAME TO hidden",
        f"CREATE VIEW session AS {ENDLESS} hidden.* FROM n JOIN hidden",
    ),
    "another view": (f"CREATE VIEW more AS {ENDLESS} i FROM n",),
    "a trigger": (f"CREATE TRIGGER more BEFORE UPDATE ON meta BEGIN INSERT INTO meta {ENDLESS} i, i FROM n; END",),
    "another table": ("CREATE TABLE more (x)",),
    "another index": ("CREATE INDEX more ON record (length(body) * 2)",),
    "a virtual table": ("CREATE VIRTUAL TABLE more USING fts5 (x)",),
    "a computed column": ("ALTER TABLE about ADD COLUMN more GENERATED ALWAYS AS (zeroblob(length(title) * 1000000))",),
    "a column that is checked": ("ALTER TABLE about ADD COLUMN more CHECK (length(title) < 10000)",),
}

NAMED: Final = {
    "a view for a table": "table 'hidden'",
    "a virtual table": "table 'more'",
    "a computed column": "table 'about'",
    "a column that is checked": "table 'about'",
}


async def stored(path: Path) -> None:
    """Make a journal with a session."""
    journal = SqliteJournal(path, sync="normal")
    await opened(journal, "s")
    await journal.close()


def content(path: Path) -> bytes:
    return path.read_bytes()


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    trio.run(stored, tmp_path / "a.db")
    return tmp_path / "a.db"


async def test_a_definition_that_is_no_text_is_refused(path: Path) -> None:
    whole = content(path)
    at = whole.index(b"title blob not null")
    put(path, whole[:at] + b"\xff" + whole[at + 1 :])
    journal = SqliteJournal(path)
    with pytest.raises(JournalUnusable, match=r"its table '\w+' is damaged"):
        await journal.sessions()
    await journal.close()


@pytest.mark.parametrize("name", FOREIGN)
async def test_a_file_with_what_no_journal_has_is_refused_before_it_runs(path: Path, name: str) -> None:
    change(path, *FOREIGN[name])
    journal = SqliteJournal(path)
    calls: tuple[Callable[[], object], ...] = (
        journal.sessions,
        partial(journal.read, "s"),
        partial(journal.claim, "s", "me"),
        partial(journal.delete, "s", "me", 1),
    )
    with trio.fail_after(PATIENCE):
        for call in calls:
            with pytest.raises(JournalUnusable, match=NAMED.get(name, "'more'")):
                await call()  # type: ignore[misc]
    await journal.close()


BESIDE: Final = ("a.db-wal", "a.db-shm", "a.db-journal")
"""The files of SQLite beside a journal."""


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("kind", ["link", "pipe"])
async def test_what_stands_beside_a_file_and_is_no_plain_file_is_refused_and_untouched(
    path: Path, name: str, kind: str
) -> None:
    victim, beside = path.with_name("victim.txt"), path.with_name(name)
    victim.write_text("of the user")
    if kind == "link":
        beside.symlink_to(victim)
    else:
        os.mkfifo(beside)
    journal = SqliteJournal(path)
    with trio.fail_after(PATIENCE):
        for call in (journal.sessions, partial(journal.claim, "s", "me")):
            with pytest.raises(JournalUnusable, match=f"`{name}` is a link or no regular file"):
                await call()
    await journal.close()
    assert victim.read_text() == "of the user"
    assert name in names_in(path.parent)


def hot(path: Path, named: Path) -> None:
    """Leave a rollback journal beside a file that is made anew, as a killed process does, that names another file.

    SQLite undoes what the process has written, takes the named file for one that told of several databases, and deletes
    it.
    """
    killed = (
        "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "db.execute('PRAGMA cache_size = 1'); db.execute('BEGIN IMMEDIATE'); "
        "db.execute('CREATE TABLE half (written)'); "
        "db.executemany('INSERT INTO half VALUES (?)', [('x' * 4000,)] * 100); os._exit(0)"
    )
    path.unlink()
    subprocess.run([sys.executable, "-c", killed, str(path)], check=True)  # noqa: S603 - our own program
    beside, name = path.with_name("a.db-journal"), str(named).encode()
    content = beside.read_bytes()
    assert content.startswith(MAGIC)
    reserved = (1 << 30) // 4096 + 1
    end = struct.pack(">I", reserved) + name + struct.pack(">II", len(name), sum(name)) + MAGIC
    beside.write_bytes(content + end)


MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
"""The first bytes of a rollback journal of SQLite, and the last ones of one that names another file."""


@pytest.mark.long
async def test_a_file_that_would_have_sqlite_delete_another_one_is_refused(path: Path) -> None:
    victim = path.with_name("victim.txt")
    victim.write_text("of the user")
    hot(path, victim)
    journal = SqliteJournal(path)
    for call in (journal.sessions, partial(journal.claim, "s", "me")):
        with pytest.raises(JournalUnusable, match="journal` beside it names another file"):
            await call()
    await journal.close()
    assert victim.read_text() == "of the user"


async def test_a_deletion_ends_in_a_file_without_free_pages_to_give_back(path: Path) -> None:
    """A file without `auto_vacuum` keeps free pages, and has no map that tells which pages are rows."""
    await with_private_session(path)
    change(path, "PRAGMA journal_mode = DELETE", "PRAGMA auto_vacuum = NONE", "VACUUM")
    journal = SqliteJournal(path)
    with trio.fail_after(PATIENCE):
        assert await journal.delete("private", "me", 1) == 1
    assert await journal.read("s") == run_of("s", 1, 3)
    assert await journal.read("long", 0, 1) == (prompted("long", 1, LONG),)
    await journal.close()
    assert PRIVATE.encode() not in content(path)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert file.execute("PRAGMA freelist_count").fetchone() == (0,)


PRIVATE: Final = "a word of hers that nobody may keep"
LONG: Final = "long " * 100_000


async def with_private_session(path: Path) -> None:
    journal = SqliteJournal(path, sync="normal")
    private = [prompted("private", number, f"{PRIVATE} {number} " * 20) for number in range(1, 101)]
    await journal.append(await journal.claim("private", "test"), 0, private)
    await journal.append(await journal.claim("long", "test"), 0, [prompted("long", 1, LONG)])
    await journal.close()


class Endless(Connection):
    """A connection whose list of sessions never ends: in place of it a query runs that has no last row."""

    begun: trio.Event
    token: trio.lowlevel.TrioToken

    def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
        if "join session" not in sql:
            return super().execute(sql, parameters)
        self.token.run_sync_soon(self.begun.set)
        return super().execute(f"{ENDLESS} count(*) FROM n")


async def test_a_query_that_does_not_end_is_cancelled(path: Path) -> None:
    class Once(Endless):
        begun, token = trio.Event(), trio.lowlevel.current_trio_token()

    journal = SqliteJournal(path, connect=connecting(Once))
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal.sessions)
            await Once.begun.wait()
            nursery.cancel_scope.cancel()
        assert nursery.cancel_scope.cancelled_caught
        assert await journal.holders() == ()
        await journal.close()


ENDLESS_PROGRAM: Final = """
import sys
from pathlib import Path

import trio

from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from tests.adapters.journals import sick


class Endless(sick.Connection):
    def execute(self, sql, parameters=(), /):
        if "join session" in sql:
            print("begun", flush=True)
            sql, parameters = sys.argv[2], ()
        return super().execute(sql, parameters)


trio.run(SqliteJournal(Path(sys.argv[1]), connect=sick.connecting(Endless)).sessions)
"""


@pytest.mark.long
def test_a_query_that_does_not_end_is_interrupted_by_ctrl_c(path: Path) -> None:
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", ENDLESS_PROGRAM, str(path), f"{ENDLESS} count(*) FROM n"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == b"KeyboardInterrupt"

"""Opens the journal's file: creates it if missing, refuses a file that is no journal, and ensures a single writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from agentrail.adapters.journals.sqlite.error_mapping import RAISED, is_locked, not_opened
from agentrail.adapters.journals.sqlite.file_type import NOT_OURS, other_version
from agentrail.adapters.journals.sqlite.foreign_parts import foreign_part
from agentrail.adapters.journals.sqlite.tables import AUTO_VACUUM, NO_TABLES, PAGE_SIZE, SCHEMA, TABLES, is_ours, pragma
from agentrail.adapters.journals.sqlite.wal_file import check_log
from agentrail.adapters.journals.sqlite.writer_lock import FileUse, Ownership, make_file, write_lock_holder
from agentrail.errors import JournalError, JournalLocked, JournalUnusable
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import slot_of

WAIT: Final = 2.0
"""The most seconds that SQLite waits for the lock of another connection; then the statement fails."""

Connect = Callable[..., sqlite3.Connection]
"""Function that opens a connection: `sqlite3.connect`, or one that fails on purpose in tests."""

SETTINGS: Final = (
    "trusted_schema = OFF",
    "secure_delete = ON",
    "cell_size_check = ON",
    "fullfsync = ON",
    "checkpoint_fullfsync = ON",
)
WRITER_SETTINGS: Final = ("wal_autocheckpoint = 0",)
NEW_FILE: Final = (f"page_size = {PAGE_SIZE}", AUTO_VACUUM)
"""Settings that a file has from its first page on."""


def open_for_reading(path: Path, connect: Connect, file: FileUse) -> sqlite3.Connection | None:
    """Begin the use *file* and return a read-only connection; `None` if there is no file, or it has no tables yet."""
    try:
        if not path.exists():
            return None
        file.begin()
        check_log(path)
        return _reading(path, connect)
    except (OSError, sqlite3.OperationalError) as error:
        raise not_opened(error, path) from error


def _reading(path: Path, connect: Connect) -> sqlite3.Connection | None:
    connection = _connect(path, connect, "ro")
    try:
        _set(connection, SETTINGS)
        connection.create_function("slot_of", 1, slot_of, deterministic=True)
        version = _look(connection, path, connect)
    except BaseException:
        connection.close()
        raise
    if version == NO_TABLES:
        connection.close()
        return None
    return connection


def _connect(path: Path, connect: Connect, mode: str) -> sqlite3.Connection:
    return connect(f"{path.as_uri()}?mode={mode}", uri=True, timeout=WAIT, isolation_level=None)


def _look(connection: sqlite3.Connection, path: Path, connect: Connect) -> int:
    """Return the version of the tables.

    If a crashed process left a transaction to roll back, open the file for writing once, which does that.
    """
    try:
        return _check(connection, path)
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
    with closing(_connect(path, connect, "rw")) as writing:
        is_ours(writing)
    return _check(connection, path)


def open_for_writing(
    path: Path, connect: Connect, ownership: Ownership, *, sync: str, take_over: bool
) -> tuple[sqlite3.Connection, int, int]:
    """Return a connection for writing, its generation, and the slot of the last record.

    The generation is a number in the file that each process raises when it becomes the writer.
    """
    try:
        make_file(path)
        ownership.enter(over=take_over)
        check_log(path)
        connection = connect(str(path), timeout=WAIT, isolation_level=None)
        reach("FILE_OPENED")
    except (OSError, *RAISED, JournalError) as error:
        ownership.release()
        raise (error if isinstance(error, JournalError) else not_opened(error, path)) from error
    try:
        _set(connection, SETTINGS)
        if _check(connection, path) == NO_TABLES:
            _set(connection, NEW_FILE)
        _set(connection, (*WRITER_SETTINGS, f"synchronous = {sync}"))
        mode = pragma(connection, "journal_mode = WAL")
        if mode != "wal":
            raise JournalUnusable(str(path), f"its file system cannot do what WAL needs (`{mode}`)")
        generation, slot = _become_owner(connection, path, ownership, take_over=take_over)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except (OSError, *RAISED, JournalError) as error:
        failure = _failure(error, path, ownership)
        connection.close()
        ownership.release()
        raise failure from error
    return connection, generation, slot


def _failure(error: Exception, path: Path, ownership: Ownership) -> JournalError:
    """Return the journal's error for *error* of a process that is about to become the writer."""
    if isinstance(error, JournalError):
        return error
    if is_locked(error) and ownership.rival:
        return JournalLocked(str(path), write_lock_holder(path) or ownership.rival)
    return not_opened(error, path)


def _set(connection: sqlite3.Connection, settings: tuple[str, ...]) -> None:
    for setting in settings:
        connection.execute(f"PRAGMA {setting}")


def _check(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of the tables; raise `JournalUnusable` if the file is no journal or has an unknown version.

    Whether there are tables is read first. Another connection may be making them: after that the file is ours too.
    Until it is known that the file has the tables of a journal alone, nothing is run but pragmas.
    """
    has_tables = pragma(connection, "schema_version") != 0
    if not is_ours(connection):
        if has_tables:
            raise JournalUnusable(str(path), NOT_OURS)
        return NO_TABLES
    version = pragma(connection, "user_version")
    if version != SCHEMA:
        raise JournalUnusable(str(path), other_version(version))
    problem = foreign_part(connection)
    if problem is not None:
        raise JournalUnusable(str(path), problem)
    return SCHEMA


@contextmanager
def _in_one(connection: sqlite3.Connection) -> Generator[None]:
    """Run the block of the `with` in one write transaction; roll it back if the block raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_MINE: Final = """SELECT generation, max(
    (SELECT ifnull(max(rowid), 0) FROM record),
    (SELECT ifnull(max(slot), 0) FROM session WHERE typeof(slot) = 'integer')
) FROM journal"""
"""Returns the generation and the highest slot in use.

The slots in the rows of sessions count too: if the last record was damaged or lost, its slot is not used again.
"""


def _become_owner(
    connection: sqlite3.Connection, path: Path, ownership: Ownership, *, take_over: bool
) -> tuple[int, int]:
    """Take the lock and raise the generation, in one transaction, so that two processes cannot do it at the same time.

    Return the generation and the slot of the last record.
    """
    with _in_one(connection):
        version = _check(connection, path)
        ownership.take(over=take_over)
        reach("FILE_LOCKED")
        if version == NO_TABLES:
            for statement in TABLES:
                connection.execute(statement)
        connection.execute("UPDATE journal SET generation = generation + 1")
        row: tuple[int, int] = connection.execute(_MINE).fetchone()
    reach("FILE_OWNED")
    return row

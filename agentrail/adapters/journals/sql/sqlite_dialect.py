"""SQLite: a file that any number of processes write, each while it has SQLite's lock."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Final, Literal, cast

from agentrail.adapters.journals.sql.checkpoints import Checkpoints
from agentrail.adapters.journals.sql.cleaning import FileCleaning
from agentrail.adapters.journals.sql.file_type import NOT_OURS, other_version
from agentrail.adapters.journals.sql.foreign_parts import foreign_part
from agentrail.adapters.journals.sql.journal_files import journal_path, make_file, write_lock_holder
from agentrail.adapters.journals.sql.shared_files import OpenFile
from agentrail.adapters.journals.sql.sql_dialect import CleaningState
from agentrail.adapters.journals.sql.sql_tables import VERSION, InsertedColumns, SqlRow, SqlValue
from agentrail.adapters.journals.sql.sqlite_errors import (
    RAISED,
    in_commit,
    in_reading,
    is_locked,
    is_passing,
    not_opened,
    not_opened_to_read,
    rollback_failure,
)
from agentrail.adapters.journals.sql.sqlite_tables import (
    NEW_FILE,
    PAGE_SIZE,
    UNRELEASED_APPLICATION,
    defined,
    is_ours,
    make_tables,
    pragma,
    tables_of,
    upgrade_tables,
)
from agentrail.codec.versions import UNRELEASED
from agentrail.errors import AgentrailError, BadRecord, JournalError, JournalUnusable, NothingWritten
from agentrail.ports.failpoints import reach

Connect = Callable[..., sqlite3.Connection]
"""Function that opens a connection: `sqlite3.connect`, or one that fails on purpose in tests."""

WAIT: Final = 10.0
"""The most seconds that SQLite waits for the lock of another connection; then the statement fails."""

INSIDE: Final = "is inside a write; if it hangs, kill it (`kill -9`, also if it is stopped): no commit is lost by that"

STEPS: Final = 100_000
"""After how many steps of its virtual machine SQLite asks whether a query is still wanted: about a millisecond."""

CHECKPOINT_AFTER: Final = 8 * 1024 * 1024
"""Bytes of new records, estimated high, after which a checkpoint moves the log into the file.

SQLite's automatic checkpoint is switched off, because it would run within a commit.
"""

MAX_VALUES: Final = 900
"""The most values that one statement binds; older versions of SQLite take at most 999."""

MAX_ROWS: Final = 64
"""The most rows that one statement inserts; more gain nothing."""

SETTINGS: Final = (
    "trusted_schema = OFF",
    "secure_delete = ON",
    "cell_size_check = ON",
    "fullfsync = ON",
    "checkpoint_fullfsync = ON",
    "temp_store = MEMORY",
)
WRITER_SETTINGS: Final = ("wal_autocheckpoint = 0", "foreign_keys = OFF")


class SqliteConnection:
    """A connection to the file of a journal, which has its tables."""

    def __init__(self, db: sqlite3.Connection, path: Path, file: OpenFile, *, is_synced: bool) -> None:
        self._db = db
        self._path = path
        self._file = file
        self._log = Checkpoints(path, is_synced=is_synced)
        self._cleaning = FileCleaning(db, path, lambda: file.descriptor)
        self._version = 0
        self._new_bytes = CHECKPOINT_AFTER
        """Bytes of new records since the last checkpoint; at first it is not known what is in the log."""
        self._checkpoint = "TRUNCATE"
        """Mode of the next checkpoint. The first one gives the space of an earlier process' log back."""

    def begin(self) -> bool:
        """Begin a transaction that writes; return whether another connection has written since the last one."""
        if self._log.lost is not None:
            raise self._log.lost
        self._file.check()
        if self._log.to_mend:
            self._log.mend(self._db)
        self._db.execute("BEGIN IMMEDIATE")
        version = cast("int", pragma(self._db, "data_version"))
        others_wrote = version != self._version
        if others_wrote:
            self._check_version()
        self._version = version
        return others_wrote

    def _check_version(self) -> None:
        """Raise `JournalUnusable` if a later agentrail has brought the tables up to date while the file was open."""
        version = pragma(self._db, "user_version")
        if version != VERSION:
            self.rollback()
            raise JournalUnusable(str(self._path), other_version(version))

    def commit(self) -> None:
        """Commit; if that fails, note that the commit may be in the log."""
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._log.to_mend = not isinstance(in_commit(error), NothingWritten)
            raise
        self._new_bytes += 3 * PAGE_SIZE

    def rollback(self) -> None:
        """Undo the transaction, if SQLite has not done so itself."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def run(self, statement: str, values: Sequence[SqlValue] = ()) -> list[SqlRow]:
        """Run one statement, and return its rows."""
        return self._db.execute(_without_marks(statement), values).fetchall()

    def run_among(self, statement: str, choice: Sequence[SqlValue], values: Sequence[SqlValue] = ()) -> list[SqlRow]:
        """Run a statement for the values of *choice*, some at a time."""
        rows: list[SqlRow] = []
        for start in range(0, len(choice), MAX_VALUES):
            some = choice[start : start + MAX_VALUES]
            rows += self.run(_among(statement, len(some)), (*values, *some))
        return rows

    def insert(self, into: InsertedColumns, rows: Sequence[Sequence[SqlValue]], otherwise: str = "") -> None:
        """Insert *rows* with few statements, each for a power of two of them.

        Each statement releases the interpreter's lock and has to get it back, which costs more than writing a row.
        Powers of two keep the number of different statements small, so that SQLite's cache has them all.
        """
        start = 0
        while start < len(rows):
            count = min(MAX_ROWS, 1 << (len(rows) - start).bit_length() - 1)
            values = [value for row in rows[start : start + count] for value in row]
            self._db.execute(_insertion(into, count, otherwise), values)
            start += count

    def make_table(self, definition: str) -> None:
        """Make a table by its *definition*, unless it is there."""
        self._db.execute(defined(definition))

    def draw_epochs(self, count: int) -> list[int]:
        """Return numbers for so many claims."""
        self._db.execute("UPDATE meta SET epoch = epoch + ?", (count,))
        (epoch,) = self._db.execute("SELECT epoch FROM meta").fetchone()
        return list(range(epoch - count + 1, epoch + 1))

    def now(self, at: int) -> int:
        """Return *at*: there is no server with a clock."""
        return at

    def show_lease(self, key: int) -> None:
        """Show other processes that the process with the lease *key* lives: this one."""
        self._file.show_lease(key)

    def has_lessee(self, key: int) -> bool:
        """Return whether a process lives that has the lease *key*."""
        return self._file.has_lessee(key)

    def was_written(self, size: int) -> None:
        """Note that a record of *size* bytes is in the transaction."""
        self._new_bytes += size + 2 * PAGE_SIZE

    def mark_removal(self) -> int:
        """Add a mark for the cleaning of the file; return it."""
        return self._cleaning.mark()

    def cleaning_state(self, mark: int) -> CleaningState:
        """Return how far the cleaning is that *mark* asks for."""
        return self._cleaning.state(mark)

    def rest(self) -> None:
        """Remove a failed commit from the log; else move the log into the file, if it is large; else clean the file."""
        if self._log.to_mend:
            try:
                self._log.mend(self._db)
            except JournalError:  # the next transaction tries again, and reports the error
                return
        elif self._new_bytes >= CHECKPOINT_AFTER:
            self._new_bytes = 0
            self._log.move(self._db, self._checkpoint)
            self._checkpoint = "PASSIVE"
        elif self._cleaning.is_due and self._log.lost is None:
            self._cleaning.go_on()

    def close(self) -> None:
        """Move the log into the file, and close it."""
        try:
            if self._log.lost is None:
                self._log.leave_whole(self._db)
        finally:
            self._db.close()
            self._file.end()


class ReadOnlySqlite(SqliteConnection):
    """A connection that reads; *has_log*: a log was beside the file when it was opened."""

    def __init__(self, db: sqlite3.Connection, path: Path, file: OpenFile, connect: Connect, *, has_log: bool) -> None:
        super().__init__(db, path, file, is_synced=True)
        self._connect = connect
        self._has_log = has_log

    def begin(self) -> bool:
        """Begin a transaction, which sees the tables as they are now."""
        self._db.execute("BEGIN")
        self._check_version()
        return True

    def close(self) -> None:
        """Close the file."""
        self._db.close()
        if not self._has_log:
            self._remove_empty_log()
        self._file.end()

    def _remove_empty_log(self) -> None:
        """Have SQLite remove the empty log that a connection leaves which only reads.

        The last one that can write removes it when it is closed. No-op if somebody has written since, or if this
        process cannot write: the log says nothing, so it may stay.
        """
        with suppress(OSError, sqlite3.Error):
            if not _log_of(self._path).stat().st_size:
                with closing(self._connect(f"{self._path.as_uri()}?mode=rw", uri=True, timeout=0)) as writing:
                    pragma(writing, "schema_version")  # else it opens no log, and removes none


@cache
def _without_marks(statement: str) -> str:
    return statement.replace("~", "")


@cache
def _among(statement: str, count: int) -> str:
    return statement.format(f"in ({', '.join('?' * count)})")


@cache
def _insertion(into: InsertedColumns, count: int, otherwise: str) -> str:
    row = f"({', '.join('?' * len(into.columns))})"
    return f"INSERT INTO {into.table} ({', '.join(into.columns)}) VALUES {', '.join([row] * count)} {otherwise}"  # noqa: S608


class SqliteDialect:
    """An SQLite file: *path*, or by default one file per user, in the folder `AGENTRAIL_HOME` if set."""

    for_update: str = ""
    errors: tuple[type[Exception], ...] = RAISED
    writers: int = 1
    readers: int = 1

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        sync: Literal["full", "normal"] = "full",
        connect: Connect = sqlite3.connect,
    ) -> None:
        self.path = journal_path(path)
        self._sync = sync
        self._connect = connect

    def connect(self) -> SqliteConnection:
        """Open the file for writing; make it, and its tables, if they are missing."""
        file = OpenFile(self.path)
        try:
            make_file(self.path)
            file.begin()
            db = self._connect(str(self.path), timeout=WAIT, isolation_level=None)
            reach("FILE_OPENED")
        except (OSError, *RAISED, JournalError) as error:
            file.end()
            raise (error if isinstance(error, JournalError) else not_opened(error, self.path)) from error
        try:
            _set(db, SETTINGS)
            if self._check(db) is None:
                _set(db, NEW_FILE)
            _set(db, (*WRITER_SETTINGS, f"synchronous = {self._sync}"))
            mode = pragma(db, "journal_mode = WAL")
            if mode != "wal":
                raise JournalUnusable(str(self.path), f"its file system cannot do what WAL needs (`{mode}`)")
            self._make_tables(db)
        except (OSError, *RAISED, JournalError) as error:
            db.close()
            file.end()
            raise (error if isinstance(error, JournalError) else not_opened(error, self.path)) from error
        return SqliteConnection(db, self.path, file, is_synced=self._sync == "full")

    def connect_to_read(self, is_unwanted: Callable[[], bool]) -> ReadOnlySqlite | None:
        """Open the file for reading; return `None` if there is none, or it has no tables yet."""
        file = OpenFile(self.path)
        try:
            if not self.path.exists():
                return None
            file.begin()
            has_log = _log_of(self.path).exists()
            db = self._connect(f"{self.path.as_uri()}?mode=ro", uri=True, timeout=WAIT, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            file.end()
            raise not_opened(error, self.path) from error
        try:
            _set(db, SETTINGS)
            version = self._check_to_read(db)
        except sqlite3.OperationalError as error:
            db.close()
            file.end()
            raise not_opened_to_read(error, self.path) from error
        except BaseException:
            db.close()
            file.end()
            raise
        if version is None:
            db.close()
            file.end()
            return None
        db.set_progress_handler(is_unwanted, STEPS)
        return ReadOnlySqlite(db, self.path, file, self._connect, has_log=has_log)

    def _check_to_read(self, db: sqlite3.Connection) -> int | None:
        """Do what `_check` does; bring older tables up to date first.

        If a process was killed while it made the file, SQLite undoes that.
        """
        try:
            version = self._check(db)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
        else:
            if version is None or version == VERSION:
                return version
        with closing(self._connect(str(self.path), timeout=WAIT, isolation_level=None)) as writing:
            _set(writing, SETTINGS)
            if self._check(writing) is not None:
                self._make_tables(writing)
        return self._check(db)

    def _check(self, db: sqlite3.Connection) -> int | None:
        """Return the version of the tables, `None` if there are none; raise `JournalUnusable` if it is no journal.

        Whether there are tables is read first. Another connection may be making them: after that the file is ours too.
        Until it is known that the file has the tables of a journal alone, nothing is run but pragmas.
        """
        has_tables = pragma(db, "schema_version") != 0
        if not is_ours(db):
            if has_tables:
                is_unreleased = pragma(db, "application_id") == UNRELEASED_APPLICATION
                raise JournalUnusable(str(self.path), UNRELEASED if is_unreleased else NOT_OURS)
            return None
        version = cast("int", pragma(db, "user_version"))
        parts = tables_of(version)
        if parts is None:
            raise JournalUnusable(str(self.path), other_version(version))
        encoding = pragma(db, "encoding")
        if encoding != "UTF-8":
            raise JournalUnusable(str(self.path), f"its texts are in {encoding}, and agentrail writes UTF-8")
        problem = foreign_part(db, parts)
        if problem is not None:
            raise JournalUnusable(str(self.path), problem)
        return version

    def _make_tables(self, db: sqlite3.Connection) -> None:
        """Make the tables, or bring older ones up to date, unless another process does so meanwhile.

        It is one transaction: so the process may be killed at any moment, and the next one finds the file as it was.
        """
        if self._check(db) == VERSION:
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            version = self._check(db)
            if version is None:
                make_tables(db)
            elif version < VERSION:
                upgrade_tables(db, version)
                self._check(db)
            reach("FILE_OWNED")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def failure(self, error: Exception, session_id: str) -> AgentrailError:
        """Return the journal's error for *error* of a write before its commit; it names whoever was waited for."""
        if session_id and not is_passing(error):
            return BadRecord(session_id, 0, str(error))
        failure = rollback_failure(error, self.path)
        holder = write_lock_holder(self.path) if is_locked(error) else None
        if holder is None or not isinstance(failure, NothingWritten):
            return failure
        return NothingWritten(f"{failure.problem}: {holder} {INSIDE}")

    def read_failure(self, error: Exception, session_id: str) -> AgentrailError:
        """Return the journal's error for *error* of a read: a damaged page is reported as a damaged session."""
        if session_id and not is_passing(error):
            return BadRecord(session_id, 0, str(error))
        return in_reading(error, self.path)

    def commit_failure(self, error: Exception) -> AgentrailError | None:
        """Return the journal's error for *error* of a commit."""
        return in_commit(cast("sqlite3.Error", error))

    def is_passing(self, error: Exception) -> bool:
        """Whether *error* is temporary, and not caused by the values that were to be written."""
        return is_passing(error)


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _set(db: sqlite3.Connection, settings: tuple[str, ...]) -> None:
    for setting in settings:
        db.execute(f"PRAGMA {setting}")

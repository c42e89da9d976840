"""`StoreConnection`: a connection to the file of a store, which one thread at a time uses."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from agentrail.knowledge.file_check import check_file, failure, unusable
from agentrail.knowledge.store_tables import has_tables, make_tables

WAIT: Final = 10.0
"""The most seconds that SQLite waits for another process to end its write."""

PAUSE: Final = 0.01
"""Seconds between two attempts where SQLite does not wait by itself."""

SETTINGS: Final = (
    "trusted_schema = OFF",
    "cell_size_check = ON",
    "secure_delete = ON",
    "temp_store = MEMORY",
    "synchronous = FULL",
)

MAX_ROW: Final = 2**20
"""The most bytes of a row that are read: those of a store are far smaller, those of a file from elsewhere may not."""

VOCABULARY: Final = "CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab('main', 'words', 'row')"
"""Makes a table, which is in no file, in which each word of a store has the number of its passages."""

RAISED: Final = (sqlite3.Error, OSError, UnicodeDecodeError)
"""What a connection raises; messages of SQLite may quote bytes of a damaged file."""


DELETED: Final = frozenset({sqlite3.SQLITE_READONLY_DBMOVED, sqlite3.SQLITE_IOERR_DELETE_NOENT})
"""Errors of a file that was deleted while it was opened."""


class StoreConnection:
    """Opens the file at its first use, and again if it was replaced. All methods block: use a thread."""

    def __init__(self, path: Path, identity: Mapping[str, str]) -> None:
        self._path = path
        self._identity = identity
        """What a new file notes of its tenant and its store, and what another file must not note otherwise."""
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        """Device and inode of the open file."""

    @contextmanager
    def reading(self, attempt: str) -> Generator[sqlite3.Connection | None]:
        """Read within one transaction; `None` if there is no file, or nothing in it."""
        with self._lock, self._errors(attempt):
            db = self._opened()
            if db is None:
                yield None
                return
            db.execute("BEGIN")
            try:
                yield db if self._is_made(db) else None
            finally:
                _roll_back(db)

    @contextmanager
    def writing(self, attempt: str) -> Generator[sqlite3.Connection]:
        """Write within one transaction, committed at the end; the file and its tables are made if they are missing."""
        with self._lock, self._errors(attempt):
            db = self._begun()
            try:
                if not self._is_made(db):
                    make_tables(db)
                    db.executemany("INSERT INTO meta VALUES(?, ?)", self._identity.items())
                yield db
                db.execute("COMMIT")
            finally:
                _roll_back(db)

    @contextmanager
    def alone(self, attempt: str) -> Generator[sqlite3.Connection | None]:
        """Use the connection without a transaction; `None` if there is no file."""
        with self._lock, self._errors(attempt):
            yield self._opened()

    def close(self) -> None:
        """Close the connection. The next use opens the file again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()

    @contextmanager
    def _errors(self, attempt: str) -> Generator[None]:
        try:
            yield
        except RAISED as error:
            self._close()  # a damaged or replaced file is looked at anew
            raise failure(self._path, attempt, error) from error

    def _begun(self) -> sqlite3.Connection:
        """Return the connection in a transaction that writes, to the file that has the path now."""
        while True:
            db = self._opened() or self._create()
            db.execute("BEGIN IMMEDIATE")
            if self._file == _identity(self._path):
                return db
            self._close()  # it was deleted while this waited for its lock

    def _opened(self) -> sqlite3.Connection | None:
        """Return the connection; `None` if there is no file."""
        while True:
            file = _identity(self._path)
            if self._db is not None and file == self._file:
                return self._db
            self._close()
            if file is None:
                return None
            try:
                return self._connected(file)
            except FileNotFoundError:
                pass  # it was deleted meanwhile
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in DELETED:
                    raise
                self._close()

    def _connected(self, file: tuple[int, int]) -> sqlite3.Connection:
        """Open *file*, which has the path now, and return the connection."""
        check_file(self._path)
        self._db = db = sqlite3.connect(
            str(self._path), timeout=WAIT, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        self._file = file
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ROW)
        for setting in SETTINGS:
            db.execute(f"PRAGMA {setting}")
        db.execute(VOCABULARY)  # in a transaction, whose end takes it back, SQLite would read its schema anew each time
        _use_log(db)
        return db

    def _create(self) -> sqlite3.Connection:
        """Make the file, which only its user can read, and return the connection."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):  # another process makes it, too
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        db = self._opened()
        if db is None:
            raise FileNotFoundError(2, "it was deleted when it was just made", str(self._path))
        return db

    def _is_made(self, db: sqlite3.Connection) -> bool:
        """Whether *db* has its tables; raise `OutsideError` if it is a file of another program, tenant or store."""
        if not has_tables(db, self._path):
            return False
        notes = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('tenant', 'store')"))
        if any(notes.get(key, value) != value for key, value in self._identity.items()):
            raise unusable(self._path, "it is the store of another tenant, or another store; put it back to its place")
        return True


def empty_log(db: sqlite3.Connection) -> bool:
    """Write the log of *db* to its file, and empty it; return whether that was done, as others may read the file.

    SQLite waits for those by itself, but not while another process does the same.
    """
    deadline = time.monotonic() + WAIT
    while True:
        is_busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not is_busy or time.monotonic() > deadline:
            return not is_busy
        time.sleep(PAUSE)


def _use_log(db: sqlite3.Connection) -> None:
    """Have *db* write to a log first. SQLite does not wait by itself while another process does the same."""
    deadline = time.monotonic() + WAIT
    while True:
        try:
            (mode,) = db.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(PAUSE)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _roll_back(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")

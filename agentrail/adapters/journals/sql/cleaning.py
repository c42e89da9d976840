"""Cleans the file of an SQLite journal after a removal: gives free pages back, and zeroes bytes of rows that are gone.

SQLite zeroes what it deletes (`secure_delete`), but it leaves copies behind: when it moves rows from one page to
another, their bytes stay in the gap between the row pointers of the old page and its first row. SQLite never reads a
gap. So the copies are zeroed here, in the file itself, without SQLite: while nobody else can write, and while the log
is empty, so that the page in the file is the last one.

The work is done in small pieces, between which this process and others write. A removal adds a mark in its own
transaction, and the mark stays until the file is clean: so a process that opens the journal after a crash goes on.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

from agentrail.adapters.journals.sql.page_gaps import dirty_gaps, zero_gaps
from agentrail.adapters.journals.sql.sql_dialect import CleaningState
from agentrail.adapters.journals.sql.sqlite_errors import rollback_failure
from agentrail.adapters.journals.sql.sqlite_tables import AUTO_VACUUM, pragma, without_waiting
from agentrail.errors import JournalError
from agentrail.ports.failpoints import reach

GIVEN_BACK: Final = 128
"""How many free pages one transaction gives back."""

ZEROED: Final = 256
"""How many pages one piece zeroes gaps of."""


class FileCleaning:
    """The cleaning that is due for one connection."""

    def __init__(self, db: sqlite3.Connection, path: Path, descriptor: Callable[[], int]) -> None:
        self._db = db
        self._path = path
        self._descriptor = descriptor
        self._pieces: Iterator[bool] | None = None
        self._must_wait = False
        self._error: JournalError | None = None
        self._is_marked = self._has_marks()

    @property
    def is_due(self) -> bool:
        """Whether there is a piece to do; after a failure there is none until `state` has raised the error."""
        return self._is_marked and self._error is None

    def mark(self) -> int:
        """Add a mark, in the transaction of a removal; return its number."""
        self._is_marked = True
        return self._db.execute("INSERT INTO cleaning DEFAULT VALUES").lastrowid or 0

    def state(self, mark: int) -> CleaningState:
        """Return how far the cleaning is that *mark* asks for; raise the error of a failed piece, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        if not self._has_marks(mark):
            return CleaningState.DONE
        self._is_marked = True
        return CleaningState.WAITS if self._must_wait else CleaningState.GOES_ON

    def go_on(self) -> None:
        """Do the next piece. A failure is kept for `state`, and the cleaning starts again."""
        try:
            if self._pieces is None:
                self._pieces = self._clean()
            has_gone_on = next(self._pieces, None)
        except sqlite3.Error as error:
            self._pieces, self._error = None, rollback_failure(error, self._path)
            return
        self._must_wait = has_gone_on is False
        if has_gone_on is None:
            self._pieces = None
            self._is_marked = self._has_marks()

    def _has_marks(self, upto: int = 2**63 - 1) -> bool:
        return self._db.execute("SELECT 1 FROM cleaning WHERE mark <= ? LIMIT 1", (upto,)).fetchone() is not None

    def _clean(self) -> Iterator[bool]:
        """Clean the file; yield after each piece whether it has gone on, or has to wait for a program that reads."""
        (mark,) = self._db.execute("SELECT max(mark) FROM cleaning").fetchone()
        if not pragma(self._db, "auto_vacuum"):
            # a file that another program has made: it gives no pages back, and has no map that says which are rows
            self._db.execute(f"PRAGMA {AUTO_VACUUM}")
            self._db.execute("VACUUM")
            yield True
        while self._has_free_pages():
            with self._transaction():
                self._give_back()
            yield True
        while not self._empty_log():
            yield False
        dirty_pages: list[int] = []
        for pages in dirty_gaps(self._descriptor()):
            dirty_pages += pages
            yield True
        while dirty_pages:
            has_zeroed = self._empty_log() and self._zero(dirty_pages[:ZEROED])
            if has_zeroed:
                del dirty_pages[:ZEROED]
            yield has_zeroed
        os.fsync(self._descriptor())
        with self._transaction():
            self._db.execute("DELETE FROM cleaning WHERE mark <= ?", (mark,))

    def _has_free_pages(self) -> bool:
        return bool(pragma(self._db, "freelist_count"))

    def _give_back(self) -> None:
        """Give some free pages back to the file system."""
        free_pages = cast("int", pragma(self._db, "freelist_count"))
        for _ in range(min(GIVEN_BACK, free_pages)):
            # frees one page: Python runs one step of this pragma, whatever its number
            self._db.execute("PRAGMA incremental_vacuum(1)")

    def _empty_log(self) -> bool:
        """Move the log into the file and truncate it; return false if a reader prevents that."""
        with without_waiting(self._db):
            (is_busy, *_) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        reach("LOG_MOVED")
        return not is_busy

    def _zero(self, pages: list[int]) -> bool:
        """Zero the gaps of *pages*; return false if another process has written since the log was emptied.

        The transaction writes a page too: so other processes find that the file has changed, and drop the pages that
        they have in memory, which would else bring the old gaps back.
        """
        with self._transaction():
            log = self._path.with_name(f"{self._path.name}-wal")
            if log.exists() and log.stat().st_size:  # page numbers may be wrong
                return False
            zero_gaps(self._descriptor(), pages)
            reach("GAPS_ZEROED")
            # our own pages in memory, too
            self._db.execute("PRAGMA shrink_memory")
            self._db.execute(f"PRAGMA user_version = {pragma(self._db, 'user_version')}")
        return True

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

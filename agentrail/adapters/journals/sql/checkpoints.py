"""The write-ahead log: moves it into the file, and removes a failed commit from it."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

from agentrail.adapters.journals.sql.sqlite_errors import busy_log_failure, in_checkpoint, in_mending
from agentrail.adapters.journals.sql.sqlite_tables import pragma, without_waiting
from agentrail.errors import CommitUnknown, JournalError
from agentrail.ports.failpoints import reach

log = logging.getLogger("agentrail.journal")


class Checkpoints:
    """Moves the log into the file, and removes failed commits from it. *is_synced*: each commit is synced to disk."""

    def __init__(self, path: Path, *, is_synced: bool) -> None:
        self._path = path
        self._is_synced = is_synced
        self.lost: JournalError | None = None
        """The error with which all further writes are refused; `None` if they are not."""
        self.to_mend = False
        """Whether a failed commit may be in the log."""

    def mend(self, db: sqlite3.Connection) -> None:
        """Remove a failed commit from the log for good.

        Raise `JournalFailed` if that cannot be done yet. Raise `CommitUnknown` if earlier commits may be lost: then
        the writer refuses all further writes.

        No connection sees the failed commit, because SQLite has not added it to the log's index. But it may be complete
        in the log, and a process that opens the journal after a crash would accept it. So the log is moved into the
        file and truncated. Then another commit is written and synced in its place: after a power cut, a log that was
        only truncated may reappear.
        """
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
            (is_busy, *_) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if is_busy:
                raise busy_log_failure()
            db.execute("BEGIN IMMEDIATE")
            db.execute(
                f"PRAGMA user_version = {pragma(db, 'user_version')}"
            )  # setting the version to itself writes a page; an UPDATE that changes nothing would not
            db.execute("COMMIT")
        except sqlite3.Error as error:
            failure = in_mending(error, is_synced=self._is_synced)
            if isinstance(failure, CommitUnknown):
                self.lose(failure)
            raise failure from error
        self.to_mend = False

    def leave_whole(self, db: sqlite3.Connection) -> None:
        """Move the log into the file before the connection is closed, unless a failed commit is in it.

        A failed commit that cannot be removed stays in the log: the next process decides about it.
        """
        try:
            if self.to_mend:
                self.mend(db)
        except JournalError as error:
            log.critical("journal `%s`: %s; the next process to open it sees whether it is there", self._path, error)
            self.to_mend = False
        else:
            self.move(db, "TRUNCATE")

    def move(self, db: sqlite3.Connection, mode: str) -> None:
        """Run a checkpoint of *mode*; log an error, because the next checkpoint can repeat the work."""
        try:
            with without_waiting(db):
                db.execute(f"PRAGMA wal_checkpoint({mode})")
            reach("LOG_MOVED")
        except sqlite3.Error as error:
            if not self.has_lost(error):
                log.warning("the log of the journal `%s` could not be moved into it yet: %s", self._path, error)

    def has_lost(self, error: sqlite3.Error) -> bool:
        """Return whether commits may be lost after *error* of a checkpoint; if so, refuse all further writes."""
        lost = in_checkpoint(error, is_synced=self._is_synced)
        if lost is not None:
            self.lose(lost)
        return lost is not None

    def lose(self, error: CommitUnknown) -> None:
        """Refuse all further writes with *error*: the content of the file is not known until it is opened again."""
        log.critical("journal `%s`: %s", self._path, error)
        self.lost = error

"""Maps SQLite's errors to errors of journals: nothing was written, a commit must be undone, or the file is unusable.

A failure before the commit is rolled back. If the commit itself fails because of a full disk or a lock, nothing is in
the write-ahead log. After any other error the whole commit may be in the log, and the writer removes it. A failed sync
of the log is final if earlier commits were not synced yet: the kernel may have dropped them.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

from agentrail.adapters.journals.missing_folders import missing_folder
from agentrail.errors import CommitUnknown, JournalError, JournalFailed, JournalFull, JournalUnusable, NothingWritten

RAISED = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions of a connection. Messages of SQLite may quote damaged bytes that cannot be decoded as text."""

_PRIMARY = 0xFF
"""Mask of the primary part of an error code; the other bits give details."""

_NOT_BEGUN = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
"""Primary error codes that leave nothing in the log, also if the commit itself raises them."""

_PASSING = _NOT_BEGUN | {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
}
"""Primary error codes of failures that a later try may not have."""

_REFUSED: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})
"""Primary error codes of a file that this process may not open."""

_UNWRITABLE: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})
"""Primary error codes of a file in a folder that this process may not write."""

_TAKING_BACK: Final = "take back a commit that failed"


def _kind(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY


def _sqlite_message(error: Exception) -> str:
    name = getattr(error, "sqlite_errorname", None)
    return f"{error}" if name is None else f"{error}, {name}"


def is_passing(error: Exception) -> bool:
    """Whether *error* is temporary, and not caused by the values to be written."""
    return _kind(error) in _PASSING


def is_locked(error: Exception) -> bool:
    """Whether *error* means that another connection has SQLite's lock."""
    return _kind(error) == sqlite3.SQLITE_BUSY


def is_stopped(error: Exception) -> bool:
    """Whether *error* means that a query was ended because nobody wants its result any more."""
    return _kind(error) == sqlite3.SQLITE_INTERRUPT


def rollback_failure(error: Exception, path: Path) -> JournalError:
    """Return the journal's error for *error* of a transaction that was rolled back before its commit."""
    return _unwritten(error) if is_passing(error) else JournalUnusable(str(path), _sqlite_message(error))


def in_reading(error: Exception, path: Path) -> JournalError:
    """Return the journal's error for *error* of a read."""
    if is_passing(error):
        return JournalFailed("read what it holds", _sqlite_message(error))
    return JournalUnusable(str(path), _sqlite_message(error))


def _unwritten(error: Exception) -> NothingWritten:
    """Return the error for *error* if nothing was written: `JournalFull` without space, else `NothingWritten`."""
    return (JournalFull if _kind(error) == sqlite3.SQLITE_FULL else NothingWritten)(_sqlite_message(error))


GIVE_ANOTHER: Final = "give the path of a file that this process may make and write"


def not_opened(error: Exception, path: Path) -> JournalError:
    """Convert *error*, with which opening the file at *path* failed, to the journal's own exception."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return JournalFull(str(error.strerror))
    if isinstance(error, OSError):
        reason, is_refused = str(error.strerror), True
    elif _kind(error) in _NOT_BEGUN:
        return _unwritten(error)
    else:
        reason, is_refused = _sqlite_message(error), _kind(error) == sqlite3.SQLITE_CANTOPEN
    if problem := missing_folder(path):
        is_absent = isinstance(error, FileNotFoundError)
        return JournalUnusable(str(path), problem if is_absent else f"{problem} ({reason})")
    return JournalUnusable(str(path), f"it cannot be opened ({reason}); {GIVE_ANOTHER}" if is_refused else reason)


COPY_IT: Final = "copy it, with its `-wal` if there is one, to a folder that this process may write"
"""What to do: a file that others may write is not read as one that never changes."""


def not_opened_to_read(error: Exception, path: Path) -> JournalError:
    """Do what `not_opened` does for a reader, to whom a disk that fails may be back at the next attempt."""
    is_fixed = _kind(error) in _UNWRITABLE and not os.access(path.parent, os.W_OK)
    if is_fixed or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY_DIRECTORY:
        problem = f"to read it, SQLite makes files beside it ({_sqlite_message(error)}); {COPY_IT}"
        return JournalUnusable(str(path), problem)
    may_pass = is_passing(error) and _kind(error) not in _REFUSED
    return in_reading(error, path) if may_pass else not_opened(error, path)


def in_commit(error: sqlite3.Error) -> NothingWritten | JournalFailed:
    """Convert *error*, with which a COMMIT failed, to the journal's own exception."""
    if _kind(error) in _NOT_BEGUN:
        return _unwritten(error)
    return JournalFailed("commit what it was given", _sqlite_message(error))


def in_mending(error: sqlite3.Error, *, is_synced: bool) -> JournalFailed | CommitUnknown:
    """Return the journal's error for *error*, with which removing a failed commit from the log failed."""
    lost = in_checkpoint(error, is_synced=is_synced)
    return JournalFailed(_TAKING_BACK, _sqlite_message(error)) if lost is None else lost


def busy_log_failure() -> JournalFailed:
    """Return the error for a failed commit that stays in the log because another program reads it."""
    return JournalFailed(_TAKING_BACK, "another program reads the file")


def still_read(session_id: str) -> JournalFailed:
    """Return the error for a deletion that another program hinders, because it reads the file."""
    problem = "another program reads the file, so its log cannot be emptied; close that program and delete again"
    return JournalFailed(f"delete session `{session_id}` for good", problem)


def in_checkpoint(error: sqlite3.Error, *, is_synced: bool) -> CommitUnknown | None:
    """Return the journal's error for *error* of a checkpoint; `None` if the checkpoint can be repeated later.

    A checkpoint syncs the log. If that fails and earlier commits were not synced (not *is_synced*), they may be lost.
    """
    is_sync = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_FSYNC
    return None if is_passing(error) and (is_synced or not is_sync) else CommitUnknown(_sqlite_message(error))

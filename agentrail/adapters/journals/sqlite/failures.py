"""What SQLite's errors mean: nothing was written, nobody knows, or the file cannot be used.

Before the commit, whatever fails is rolled back. In the commit itself only a full disk and a lock are sure to have left
nothing behind; any other error there may be a failed sync, after which the kernel may have dropped what it could not
write and say that all is well the next time.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agentrail.errors import CommitUnknown, JournalError, JournalFull, JournalUnusable

RAISED = (sqlite3.Error, UnicodeDecodeError)
"""What a connection raises: SQLite's messages quote what is damaged, and then they may be no text."""

_PRIMARY = 0xFF
"""Which bits of a code say what failed; the others say how."""

_NO_SPACE = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PASSING = _NO_SPACE | {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
}
"""What may be different the next time."""


def _kind(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY


def _said(error: Exception) -> str:
    name = getattr(error, "sqlite_errorname", None)
    return f"{error}" if name is None else f"{error}, {name}"


def is_passing(error: Exception) -> bool:
    """Whether *error* says nothing of what was to be written."""
    return _kind(error) in _PASSING


def rolled_back(error: Exception, path: Path) -> JournalError:
    """Return what *error* means if the transaction was rolled back before its commit."""
    return JournalFull(_said(error)) if is_passing(error) else JournalUnusable(str(path), _said(error))


def not_opened(error: Exception, path: Path) -> JournalError:
    """Return what *error* means if the file could not even be opened."""
    if isinstance(error, OSError):
        return JournalUnusable(str(path), f"it cannot be opened ({error.strerror})")
    return JournalFull(_said(error)) if _kind(error) in _NO_SPACE else JournalUnusable(str(path), _said(error))


def in_commit(error: sqlite3.Error) -> JournalError:
    """Return what *error* means if it comes from the commit itself."""
    return JournalFull(_said(error)) if _kind(error) in _NO_SPACE else CommitUnknown(_said(error))


def in_checkpoint(error: sqlite3.Error) -> CommitUnknown | None:
    """Return what *error* means if it comes from a checkpoint; `None`: it can be done later."""
    unknown = in_commit(error)
    return unknown if isinstance(unknown, CommitUnknown) else None

"""Checks that a file may be a store of knowledge, before SQLite opens it: opening a file may already change it."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final

from agentrail.errors import OutsideError

MAGIC: Final = b"SQLite format 3\0"
"""The first bytes of each database of SQLite."""

APPLICATION: Final = 0x61_67_4B_4E
"""The `application_id` of a store: the letters agKN."""

VERSION: Final = 1
"""The `user_version` of a store: that of its tables."""

HEAD: Final = 100
"""The size of the header of a database, in bytes."""

BESIDE: Final = ("-wal", "-shm", "-journal")
"""How the names of the files end that SQLite opens beside a database."""

ROLLBACK: Final = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a rollback journal that names another file, which SQLite would delete. A store never has one."""

FOREIGN: Final = "it is a file of another program; give another path"

_PASSING: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)
"""Primary error codes of failures of the disk or of its rights; any other is one of the file."""


def unusable(path: Path, problem: str) -> OutsideError:
    """Return the error for a file that is no store of knowledge, or damaged."""
    return OutsideError("knowledge-unusable", str(path), problem)


def failure(path: Path, attempt: str, error: Exception) -> OutsideError:
    """Return the error for *error* of SQLite or of the system, with which *attempt*, a verb, has failed."""
    if isinstance(error, OSError):
        return OutsideError("knowledge-failed", str(path), attempt, str(error.strerror or error))
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in _PASSING:
        return OutsideError("knowledge-failed", str(path), attempt, str(error))
    return unusable(path, f"SQLite says: {error}")


def check_file(path: Path) -> None:
    """Raise `OutsideError` if the file *path* is no store of knowledge; an empty one counts as new."""
    status = path.lstat()
    if not S_ISREG(status.st_mode):
        what = "a folder" if S_ISDIR(status.st_mode) else "a link, or no regular file"
        raise unusable(path, f"it is {what}; give the path of a plain file")
    for end in BESIDE:
        _check_beside(path, path.with_name(f"{path.name}{end}"))
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head:
        return
    if not head.startswith(MAGIC) or len(head) < HEAD:
        raise unusable(path, f"it is no database, but begins with {head[:24]!r}; give another path")
    application, version = int.from_bytes(head[68:72]), int.from_bytes(head[60:64])
    has_schema = any(head[40:44])  # a store gets its tables and the number of its application at once
    if application != APPLICATION and (application or has_schema):
        raise unusable(path, FOREIGN)
    check_version(path, version)


def check_version(path: Path, version: int) -> None:
    """Raise `OutsideError` if *version* of the tables of *path* is a later one."""
    if version > VERSION:
        problem = f"its tables have version {version}, and this agentrail knows {VERSION}; use a newer agentrail"
        raise unusable(path, problem)


def _check_beside(path: Path, beside: Path) -> None:
    with suppress(FileNotFoundError):
        if not S_ISREG(beside.lstat().st_mode):
            raise unusable(path, f"`{beside.name}` beside it is a link, or no regular file; remove it")
        if beside.name.endswith("-journal"):
            with beside.open("rb") as file:
                file.seek(max(file.seek(0, 2) - len(ROLLBACK), 0))
                if file.read() == ROLLBACK:
                    raise unusable(path, f"`{beside.name}` beside it has SQLite delete another file; remove it")

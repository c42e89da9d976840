"""Converts a file with the tables of version 4, at its first opening, into one with those of today.

The stored form of a record is the same, and so are the checksums of the chain of records. A new file is written beside
the old one, read again, and compared; then it takes the old one's place, in one step. Until then the old file is as it
was: so the process may be killed at any moment, and the next one begins anew. No copy of the old file stays, as what
is deleted later must not be found in it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_IMODE
from typing import Final, cast

from agentrail.adapters.file_lock import O_BINARY, open_lock_file, try_lock_file
from agentrail.adapters.journals.checksums import as_bytes
from agentrail.adapters.journals.sql.byte_locks import is_locked, lock_byte
from agentrail.adapters.journals.sql.file_type import HEAD, NOT_OURS, check_kind, number_at
from agentrail.adapters.journals.sql.foreign_parts import foreign_part, known_parts
from agentrail.adapters.journals.sql.journal_files import FileIdentity, make_file, name_beside
from agentrail.adapters.journals.sql.sql_tables import (
    ABOUT,
    BLOB,
    LABEL,
    RECORD,
    SESSION,
    SNAPSHOT,
    InsertedColumns,
    SqlRow,
    as_stored,
)
from agentrail.adapters.journals.sql.sqlite_errors import RAISED, not_opened
from agentrail.adapters.journals.sql.sqlite_tables import APPLICATION, NEW_FILE, is_ours, make_tables
from agentrail.adapters.journals.sql.version_4 import COLUMNS_4, TABLES_4, VERSION_4, SealedSession
from agentrail.adapters.system import HAS_FOLDERS
from agentrail.errors import JournalInUse, JournalLinked, JournalUnusable
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import slot_of

AT_ONCE: Final = 1000
"""Rows that are written with one call."""

KNOWN_4: Final = known_parts(TABLES_4)

WRITER_BYTE: Final = 2**62
"""Offset of the byte that a process of an earlier version locks while it has the file open for writing."""

MAX_NAME: Final = 200
"""The most bytes that are read of what such a process has written into its lock file."""

NAMELESS: Final = "a process of an earlier version has it open"

CONVERTS: Final = "process {}, which converts it to the tables of this version"

NOT_ITS_OWNER: Final = "its tables are of an earlier version, and it is of another user, who has to open it first"

PATIENCE: Final = 5.0
"""For how many seconds another process may convert the file."""

AGAIN: Final = 0.05
"""After how many seconds it is looked whether it is done."""

DAMAGED: Final = b"damaged"
"""Checksum of the last record of a session whose row is damaged: reading the session says so, as before."""


def convert_old(path: Path) -> None:
    """Convert the file at *path* if its tables have version 4; no-op for any other file.

    This process must have no connection to the file. Raise `JournalInUse` if another process writes it, and
    `JournalUnusable` if it cannot be converted.
    """
    if not _is_old(path):
        return
    check_kind(path, VERSION_4)
    status = path.stat()
    if status.st_nlink > 1:
        raise JournalLinked(str(path), name_beside(path, FileIdentity(status.st_dev, status.st_ino)))
    if sys.platform != "win32" and os.getuid() not in {0, status.st_uid}:
        raise JournalUnusable(str(path), NOT_ITS_OWNER)  # the new file would not be the owner's
    with _alone_with(path, status):
        reach("FILE_LOCKED")
        if _is_old(path):  # else another process was faster
            try:
                _convert(path, status)
            except RAISED as error:
                raise not_opened(error, path) from error


@contextmanager
def _alone_with(path: Path, status: os.stat_result) -> Generator[None]:
    """Keep other processes away that write or convert the file; raise `JournalInUse` if one does not end.

    Processes of earlier versions lock a file beside it, and a byte of it.
    """
    beside = open_lock_file(path.with_name(f"{path.name}.lock"), owner=status.st_uid)
    try:
        until = time.monotonic() + PATIENCE
        while not try_lock_file(beside):
            if time.monotonic() >= until:
                raise JournalInUse(str(path), os.read(beside, MAX_NAME).decode(errors="replace") or NAMELESS)
            time.sleep(AGAIN)
        _give(beside, status)
        os.ftruncate(beside, 0)
        os.write(beside, CONVERTS.format(os.getpid()).encode())
        opened = os.open(path, os.O_RDWR | O_BINARY)
        try:
            if is_locked(opened, WRITER_BYTE):
                raise JournalInUse(str(path), NAMELESS)
            lock_byte(opened, WRITER_BYTE)
            yield
        finally:
            os.close(opened)
            os.ftruncate(beside, 0)
    finally:
        os.close(beside)


def _is_old(path: Path) -> bool:
    if not path.is_file():  # to open a pipe would wait for who writes it
        return False
    with suppress(OSError), path.open("rb") as file:
        head = file.read(HEAD)
        return len(head) == HEAD and number_at(head, 68) == APPLICATION and number_at(head, 60) == VERSION_4
    return False


def _convert(path: Path, status: os.stat_result) -> None:
    new_path = path.with_name(f"{path.name}.converting")
    _remove(new_path)
    try:
        make_file(new_path)
        new_file = open_lock_file(new_path, os.O_RDONLY)
        try:
            _give(new_file, status)
        finally:
            os.close(new_file)
        _write(path, new_path)
        new_path.replace(path)
    finally:  # what is left of it has the texts of sessions, and fills a disk that was full
        _remove(new_path)
    if HAS_FOLDERS:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    reach("FILE_OWNED")


def _remove(new_path: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        new_path.with_name(f"{new_path.name}{end}").unlink(missing_ok=True)


def _give(descriptor: int, status: os.stat_result) -> None:
    """Give a new file the owner, group and mode of the old one, whose *status* this is: root may convert it."""
    if sys.platform == "win32":
        return
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, S_IMODE(status.st_mode))


def _write(path: Path, new_path: Path) -> None:
    """Write the new file, and compare it; then move the log of the old one into it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        problem = foreign_part(old, KNOWN_4) if is_ours(old) else NOT_OURS
        if problem is not None:
            raise JournalUnusable(str(path), problem)
        with closing(sqlite3.connect(new_path, isolation_level=None)) as new:
            for setting in (*NEW_FILE, "synchronous = FULL", "secure_delete = ON"):
                new.execute(f"PRAGMA {setting}")
            new.execute("BEGIN IMMEDIATE")
            make_tables(new)
            _copy(old, new)
            reach("COMMIT")
            new.execute("COMMIT")
        reach("COMMITTED")
        _compare(path, old, new_path)
        # what is in the old log must not be taken for the log of the new file
        old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        old.execute("PRAGMA journal_mode = DELETE")
    reach("LOG_MOVED")


def _copy(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    keys = {session_id: key for key, (session_id,) in enumerate(old.execute("SELECT id FROM session ORDER BY id"), 1)}
    for columns, rows in _tables(old, keys):
        marks = ", ".join("?" * len(columns.columns))
        statement = f"INSERT INTO {columns.table} ({', '.join(columns.columns)}) VALUES ({marks})"  # noqa: S608
        batch: list[SqlRow] = []
        for row in rows:
            batch.append(row)
            if len(batch) == AT_ONCE:
                new.executemany(statement, batch)
                batch.clear()
        new.executemany(statement, batch)
        reach("BLOB_WRITTEN")
    (epoch,) = old.execute("SELECT max(epoch, (SELECT ifnull(max(epoch), 0) FROM session)) FROM journal").fetchone()
    new.execute("UPDATE journal SET epoch = ?", (epoch,))


SEALED: Final = InsertedColumns(RECORD.table, (*RECORD.columns, "sealed"), (*RECORD.types, "BYTES"))


def _tables(old: sqlite3.Connection, keys: dict[str, int]) -> Iterator[tuple[InsertedColumns, Iterable[SqlRow]]]:
    """Yield the rows of each new table, made from the *old* ones. Sessions that are being deleted have no key."""
    yield SESSION, _sessions(old, keys)
    yield SEALED, _records(old, keys)
    snapshots = old.execute('SELECT session, number, behind, format, blobs, "check", body FROM snapshot')
    yield SNAPSHOT, ((keys[name], *row) for name, *row in snapshots if name in keys)
    blobs = old.execute("SELECT session, digest, content FROM blob_use JOIN blob USING (digest)")
    yield BLOB, ((keys[name], *row) for name, *row in blobs if name in keys)
    parents = dict(old.execute("SELECT session, parent FROM child"))
    abouts = old.execute("SELECT session, tenant, owner, spec, title, labels, created FROM about").fetchall()
    yield ABOUT, (_about(row, parents) for row in abouts if row[0] in keys)
    labels = ((label, row[0]) for row in abouts if row[0] in keys for label in json.loads(row[5]))
    yield LABEL, ((as_stored(label), as_stored(name)) for label, name in labels)


def _sessions(old: sqlite3.Connection, keys: dict[str, int]) -> Iterator[SqlRow]:
    for columns in old.execute(f"SELECT {COLUMNS_4} FROM session"):  # noqa: S608
        row = SealedSession._make(columns)
        checksum = row.check if row.is_whole else DAMAGED
        claim = (row.epoch, 0, 0)
        last = (row.head, row.seq, checksum, row.due, row.at_work, row.ended, row.active)
        yield (keys[row.id], as_stored(row.id), slot_of(row.id), *claim, *last)


def _records(old: sqlite3.Connection, keys: dict[str, int]) -> Iterator[SqlRow]:
    query = """SELECT session, number, epoch, seq, command, format, blobs, "check", body, sealed
    FROM record ORDER BY slot"""
    for name, number, epoch, seq, command, *row in old.execute(query):
        if name in keys:
            yield (keys[name], number, epoch, seq, None if command is None else as_stored(command), *row)


def _about(row: SqlRow, parents: dict[str, str]) -> SqlRow:
    name, *texts = cast("tuple[str, str, str, str, str]", row[:5])
    labels = json.dumps(json.loads(cast("str", row[5]))).encode()
    parent = parents.get(name)
    return (as_stored(name), None if parent is None else as_stored(parent), *map(as_stored, texts), labels, row[6])


def _compare(path: Path, old: sqlite3.Connection, new_path: Path) -> None:
    """Raise `JournalUnusable` unless the new file, opened anew, has all rows of the *old* one and no others."""
    keys = {session_id: key for key, (session_id,) in enumerate(old.execute("SELECT id FROM session ORDER BY id"), 1)}
    with closing(sqlite3.connect(f"{new_path.as_uri()}?mode=ro", uri=True)) as new:
        for columns, rows in _tables(old, keys):
            stored = new.execute(f"SELECT {', '.join(columns.columns)} FROM {columns.table}")  # noqa: S608
            if _sum_of(rows) != _sum_of(stored):
                problem = f"its table `{columns.table}` was not converted as it is; the file was left as it was"
                raise JournalUnusable(str(path), problem)


def _sum_of(rows: Iterable[SqlRow]) -> tuple[int, int]:
    """Return the number of *rows* and the sum of their digests, which does not depend on their order."""
    count = total = 0
    for row in rows:
        count += 1
        total += int.from_bytes(blake2b(as_bytes(row), digest_size=16).digest())
    return count, total

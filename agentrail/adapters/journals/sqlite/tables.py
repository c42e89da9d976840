"""The tables of a journal, and the checksums of their rows.

Every record has a checksum over itself and the checksum of the record before it. The row of a session holds the number
and the checksum of its last record, and a checksum over itself, its seal. So a record that is lost, swapped or changed
is always noticed.

Records are stored in the order in which they were written. The slot of a record is its rowid. Each record holds the
slot of the previous record of its session, and the row of the session holds the slot of the last. An index of all
records would be the largest part of each commit, because it needs a page for each session. So only every `STRIDE`th
record of a session is in the index.

`child`, `blob_use` and `deleting` are for the deletion of sessions: who is a sub-agent of whom, which texts a session
uses, and how far the work is. `journal.epoch` is the highest epoch of a deleted session: claims of its id, if that is
used again, are numbered from there on.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from agentrail.adapters.journals.checksums import as_bytes, is_next
from agentrail.adapters.journals.packing import digest

SCHEMA: Final = 4
"""The version of the tables, kept as `user_version` of the file; files of an older one are refused."""

NO_TABLES: Final = 0
"""Version number of a file without tables."""

APPLICATION: Final = 0x41524A4C
"""The `application_id` of the file: the letters ARJL."""

PAGE_SIZE: Final = 1024
"""Bytes of a page of a new file. A commit writes whole pages: 9 kB for a short turn, and 25 kB with SQLite's 4,096."""

AUTO_VACUUM: Final = "auto_vacuum = INCREMENTAL"
"""The setting with which a file gives free pages back, and has a map that says what each page is."""

STRIDE: Final = 64
"""One record of this many is in the index; the others are found from it. A change needs a new version of the tables."""

INDEXED: Final = f"number % {STRIDE} = 1"
"""The condition in SQL for the records that are in the index."""

TABLES: Final[tuple[str, ...]] = (
    """CREATE TABLE journal (generation INTEGER NOT NULL, epoch INTEGER NOT NULL)""",
    """INSERT INTO journal VALUES (0, 0)""",
    """CREATE TABLE session (
        id TEXT NOT NULL PRIMARY KEY,
        epoch INTEGER NOT NULL,
        owner TEXT NOT NULL,
        head INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        "check" BLOB NOT NULL,
        due INTEGER,
        at_work INTEGER NOT NULL,
        ended INTEGER NOT NULL,
        active INTEGER NOT NULL,
        seal BLOB NOT NULL,
        slot INTEGER NOT NULL
    )""",
    "CREATE INDEX session_by_due ON session (due, id) WHERE due IS NOT NULL AND at_work = 0",
    "CREATE INDEX session_at_work ON session (id) WHERE at_work = 1",
    "CREATE INDEX session_by_end ON session (ended, id)",
    """CREATE TABLE about (
        session TEXT NOT NULL PRIMARY KEY,
        tenant TEXT NOT NULL,
        owner TEXT NOT NULL,
        spec TEXT NOT NULL,
        title TEXT NOT NULL,
        labels TEXT NOT NULL,
        created INTEGER NOT NULL,
        seal BLOB NOT NULL,
        ended INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX about_by_tenant ON about (tenant, session, owner, ended) WHERE tenant != ''",
    "CREATE INDEX about_by_owner ON about (owner, session, tenant, ended) WHERE owner != ''",
    """CREATE TABLE label (
        label TEXT NOT NULL,
        session TEXT NOT NULL,
        tenant TEXT NOT NULL,
        owner TEXT NOT NULL,
        ended INTEGER NOT NULL,
        PRIMARY KEY (label, session)
    ) WITHOUT ROWID""",
    """CREATE TABLE record (
        slot INTEGER PRIMARY KEY,
        back INTEGER NOT NULL,
        session TEXT NOT NULL,
        number INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        command TEXT,
        format INTEGER NOT NULL,
        blobs TEXT NOT NULL,
        "check" BLOB NOT NULL,
        body BLOB NOT NULL,
        sealed BLOB
    )""",
    f"CREATE UNIQUE INDEX record_by_number ON record (session, number) WHERE {INDEXED}",
    "CREATE INDEX record_by_command ON record (session, command) WHERE command IS NOT NULL",
    """CREATE TABLE snapshot (
        session TEXT NOT NULL PRIMARY KEY,
        number INTEGER NOT NULL,
        behind BLOB NOT NULL,
        format INTEGER NOT NULL,
        blobs TEXT NOT NULL,
        "check" BLOB NOT NULL,
        body BLOB NOT NULL
    )""",
    """CREATE TABLE blob (digest TEXT NOT NULL PRIMARY KEY, content BLOB NOT NULL)""",
    """CREATE TABLE child (session TEXT NOT NULL PRIMARY KEY, parent TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX child_by_parent ON child (parent)",
    """CREATE TABLE blob_use (
        digest TEXT NOT NULL,
        session TEXT NOT NULL,
        PRIMARY KEY (digest, session)
    ) WITHOUT ROWID""",
    "CREATE INDEX blob_use_by_session ON blob_use (session)",
    """CREATE TABLE deleting (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL,
        slot INTEGER NOT NULL,
        epoch INTEGER NOT NULL
    )""",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {SCHEMA}",
)


class SessionRow(NamedTuple):
    """The row of a session: its claim, and the number, checksum and place of its last record."""

    id: str
    epoch: int
    owner: str
    head: int = 0
    seq: int = 0
    check: bytes = b""
    due: int | None = None
    at_work: int = 0
    ended: int = 0
    active: int = 0
    seal: bytes = b""
    slot: int = 0
    """The slot of the last record; not part of the seal, because the record that is found there is checked itself."""

    @property
    def is_whole(self) -> bool:
        """Whether the row is unchanged since it was written: whether its seal fits."""
        return self.seal == seal_of(self[:FACTS])


Facts: TypeAlias = tuple[str, int, str, int, int, bytes, int | None, int, int, int]
"""The fields of a `SessionRow` before its seal."""

FACTS: Final = 10
"""The number of these fields."""


def seal_row(facts: Facts, slot: int) -> SessionRow:
    """Return the row of a session with these *facts*, their seal, and the *slot* of its last record."""
    return SessionRow._make((*facts, seal_of(facts), slot))


def seal_of(facts: tuple[object, ...]) -> bytes:
    """Return the checksum of a row over its other columns."""
    return digest(as_bytes(facts))


COLUMNS: Final = 'id, epoch, owner, head, seq, "check", due, at_work, ended, active, seal, slot'

NOTHING: Final = frozenset[str]()
"""No columns."""

LATEST: Final = 2**63 - 1
"""The latest `due` of a session that a column of SQLite can hold; a later one is stored as this."""

INDEXED_COLUMNS: Final = ("due", "at_work", "ended")
"""The columns of a session's row that are in an index: for each of them that is set, its index is written anew."""

Standing: TypeAlias = tuple[int | None, int, int]
"""The values of these columns."""


class RecordRow(NamedTuple):
    """A row of the table `record`."""

    slot: int
    back: int
    session: str
    number: int
    epoch: int
    seq: int
    command: str | None
    format: int
    blobs: str
    check: bytes
    body: bytes
    sealed: bytes | None = None
    """Checksum of what is stored now, if the record was redacted; `check` is that of the record as it was.

    It is no field of a new record: a redaction sets it.
    """

    @property
    def outside(self) -> bytes:
        """The columns from `session` to `blobs`; the checksum covers them together with the body."""
        return as_bytes(self[2:9])

    def follows(self, before: bytes) -> bool:
        """Whether the record is unchanged, and follows the record with the checksum *before*."""
        return is_next(before, self.outside, self.body, self.check, self.sealed)


NEW_COLUMNS: Final = 'rowid, back, session, number, epoch, seq, command, format, blobs, "check", body'
RECORD_COLUMNS: Final = f"{NEW_COLUMNS}, sealed"


MAX_AT_ONCE: Final = 64
"""The most rows that one statement writes; more gain nothing, and older versions of SQLite take at most 999 values."""


NULL: Final = math.nan
"""Bound in place of `None`, and of `bytes` a `bytearray`: SQLite stores a NaN as `NULL`, and both as blobs.

For each value of another class than `int`, `float`, `str` and `bytearray`, the module `sqlite3` looks for an adapter.
That takes three times as long as to write the value.
"""


def write_records(connection: sqlite3.Connection, values: Sequence[object]) -> None:
    """Insert records; *values* has the `NEW_COLUMNS` of all records in one flat list. For `None` see `NULL`."""
    _write(connection, "record", NEW_COLUMNS, values)


def restated_columns(before: Standing, now: Standing) -> frozenset[str]:
    """Return the indexed columns that are not *now* what they were *before*."""
    return frozenset(name for name, old, new in zip(INDEXED_COLUMNS, before, now, strict=True) if old != new)


def write_sessions(
    connection: sqlite3.Connection, rows: Iterable[SessionRow], restated: Mapping[str, frozenset[str]]
) -> None:
    """Insert or replace the rows of sessions; existing rows keep the indexed columns that are not *restated*."""
    alike: dict[frozenset[str], list[object]] = {}
    for session_id, epoch, owner, head, seq, check, due, at_work, ended, active, seal, slot in rows:
        values = alike.setdefault(restated.get(session_id, NOTHING), [])
        values += (session_id, epoch, owner, head, seq, bytearray(check), NULL if due is None else due)
        values += (at_work, ended, active, bytearray(seal), slot)
    for columns, values in alike.items():
        _write(connection, "session", COLUMNS, values, _renewing(columns))


@cache
def _renewing(changed: frozenset[str]) -> str:
    names = (name for name in COLUMNS.split(", ") if name != "id" and (name in changed or name not in INDEXED_COLUMNS))
    return "ON CONFLICT (id) DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in names)


def _write(
    connection: sqlite3.Connection, table: str, columns: str, values: Sequence[object], otherwise: str = ""
) -> None:
    """Write rows, whose *values* stand in one flat list, with few statements, each for a power of two of rows.

    Each statement releases the interpreter's lock and has to get it back, which costs more than writing a row. Powers
    of two keep the number of different statements small, so that SQLite's cache has them all.
    """
    width = columns.count(",") + 1
    written_rows, rows_left = 0, len(values) // width
    while rows_left:
        count = min(MAX_AT_ONCE, 1 << rows_left.bit_length() - 1)
        piece = values[written_rows : written_rows + count * width]
        connection.execute(_statement(table, columns, count, otherwise), piece)
        written_rows, rows_left = written_rows + count * width, rows_left - count


@cache
def _statement(table: str, columns: str, count: int, otherwise: str) -> str:
    row = f"({', '.join('?' * len(columns.split(', ')))})"
    return f"INSERT INTO {table} ({columns}) VALUES {', '.join([row] * count)} {otherwise}"  # noqa: S608


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether the file is a journal, by its `application_id`; an empty file has none yet."""
    return bool(pragma(connection, "application_id") == APPLICATION)


def pragma(connection: sqlite3.Connection, name: str) -> object:
    """Run a pragma of SQLite and return its value."""
    row: tuple[object, ...] = connection.execute(f"PRAGMA {name}").fetchone()
    return row[0]

"""The tables of a journal, and what each row is checked by.

Every record has a check of itself and of all before it. The row of a session holds the number and the check of its last
record, and a seal over itself: no record can be lost, swapped or changed without a word.

Records lie in the order in which they were written, each in a slot, which is its rowid. Each knows the slot of the one
before it of its session, and the row of the session that of the last. An index of all of them would be most of what a
commit writes: it has a page for each session. So only every `STRIDE`th is in one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from agentrail.adapters.journals.packing import check_of

SCHEMA: Final = 2
"""The version of the tables; `user_version` of the file."""

APPLICATION: Final = 0x41524A4C
"""`application_id` of the file: the letters ARJL."""

STRIDE: Final = 64
"""Of how many records one is found by its number, and the others from there; as a part of the index, of the version."""

INDEXED: Final = f"number % {STRIDE} = 1"
"""Which ones."""

TABLES: Final[tuple[str, ...]] = (
    """CREATE TABLE journal (generation INTEGER NOT NULL)""",
    """INSERT INTO journal VALUES (0)""",
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
        seal BLOB NOT NULL,
        slot INTEGER NOT NULL
    )""",
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
        body BLOB NOT NULL
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
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {SCHEMA}",
)

UPGRADES: Final[Mapping[int, tuple[str, ...]]] = {
    1: (
        "ALTER TABLE record ADD COLUMN back INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE session ADD COLUMN slot INTEGER NOT NULL DEFAULT 0",
        "PRAGMA user_version = 2",
    ),
}
"""What makes the tables of a version those of the next, without a look at what is in them.

The first version has no slots, and an index of all records, by which those that it has written are found as ever.
"""


class SessionRow(NamedTuple):
    """What is known of a session beside its records."""

    id: str
    epoch: int
    owner: str
    head: int = 0
    seq: int = 0
    check: bytes = b""
    due: int | None = None
    at_work: int = 0
    ended: int = 0
    seal: bytes = b""
    slot: int = 0
    """Where the last record lies: what is found there is checked, so this is not."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing in it has changed since it was sealed."""
        return self.seal == _seal(self[:FACTS])


Facts: TypeAlias = tuple[str, int, str, int, int, bytes, int | None, int, int]
"""What a `SessionRow` holds before its seal."""

FACTS: Final = 9
"""How much that is."""


def sealed(facts: Facts, slot: int) -> SessionRow:
    """Return the row that holds these *facts*, with its seal, of a session whose last record lies in *slot*."""
    return SessionRow(*facts, _seal(facts), slot)


def _seal(facts: tuple[object, ...]) -> bytes:
    return blake2b(repr(facts).encode(errors="backslashreplace"), digest_size=16).digest()


COLUMNS: Final = 'id, epoch, owner, head, seq, "check", due, at_work, ended, seal, slot'


class RecordRow(NamedTuple):
    """A record as it is written."""

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

    @property
    def outside(self) -> str:
        """What stands beside the body, for the check."""
        return repr(self[2:9])

    def follows(self, before: bytes) -> bool:
        """Whether nothing has changed since it was written after the record that has the check *before*."""
        if type(self.body) is not bytes or type(before) is not bytes:  # one bit makes text of bytes
            return False
        return check_of(before, self.outside, self.body) == self.check


RECORD_COLUMNS: Final = 'rowid, back, session, number, epoch, seq, command, format, blobs, "check", body'


MOST_AT_ONCE: Final = 64
"""Rows that one statement writes; more gain nothing, and older versions of SQLite take 999 values at most."""


def write_records(connection: sqlite3.Connection, rows: Sequence[RecordRow]) -> None:
    """Write new records."""
    _write(connection, "record", RECORD_COLUMNS, rows)


def write_sessions(connection: sqlite3.Connection, rows: Sequence[SessionRow]) -> None:
    """Write what is known of sessions, in place of what was known before."""
    _write(connection, "session", COLUMNS, rows, f"ON CONFLICT (id) DO UPDATE SET {_RENEWED}")


_RENEWED: Final = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS.split(", ") if name != "id")


def _write(
    connection: sqlite3.Connection, table: str, columns: str, rows: Sequence[tuple[object, ...]], otherwise: str = ""
) -> None:
    """Write *rows* with as few statements as there are powers of two in their number.

    Each statement lets go of the interpreter and has to get it back, which costs more than a row.
    """
    done = 0
    while done < len(rows):
        count = min(MOST_AT_ONCE, 1 << (len(rows) - done).bit_length() - 1)
        piece = rows[done : done + count]
        connection.execute(_statement(table, columns, count, otherwise), tuple(chain.from_iterable(piece)))
        done += count


@cache
def _statement(table: str, columns: str, count: int, otherwise: str) -> str:
    row = f"({', '.join('?' * len(columns.split(', ')))})"
    return f"INSERT INTO {table} ({columns}) VALUES {', '.join([row] * count)} {otherwise}"  # noqa: S608


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether the file is a journal; an empty one is nobody's."""
    return bool(pragma(connection, "application_id") == APPLICATION)


def pragma(connection: sqlite3.Connection, name: str) -> object:
    """Return the value of a pragma."""
    row: tuple[object, ...] = connection.execute(f"PRAGMA {name}").fetchone()
    return row[0]

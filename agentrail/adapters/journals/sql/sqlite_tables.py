"""The tables as SQLite has them, and the settings of a new file."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, NamedTuple

from agentrail.adapters.journals.sql.foreign_parts import known_parts
from agentrail.adapters.journals.sql.sql_tables import DEFINITIONS, MONEY_TABLE, VERSION
from agentrail.ports.failpoints import reach

APPLICATION: Final = 0x41475254
"""The `application_id` of the file: the letters AGRT."""

UNRELEASED_APPLICATION: Final = 0x41524A4C
"""The `application_id` of files from before the first release: the letters ARJL. Their versions mean other tables."""

PAGE_SIZE: Final = 512
"""Bytes of a page of a new file. A commit writes whole pages, and for a short turn it writes 5 to 8 of them."""

AUTO_VACUUM: Final = "auto_vacuum = INCREMENTAL"
"""The setting with which a file gives free pages back, and has a map that says what each page is."""

NEW_FILE: Final = (f"page_size = {PAGE_SIZE}", AUTO_VACUUM)
"""Settings that a file has from its first page on."""

TYPES: Final = (("~", ""), ("KEY", "integer primary key"), ("NUMBER", "integer"), ("BYTES", "blob"))

ALL_DEFINITIONS: Final = (
    *DEFINITIONS,
    "create table ~cleaning (mark integer primary key autoincrement)",
)
"""The definitions of the tables; `cleaning` has a row for each deletion whose bytes may still be in the file."""


def defined(statement: str) -> str:
    """Return *statement* with SQLite's words for the types in it."""
    for word, meaning in TYPES:
        statement = statement.replace(word, meaning)
    return statement


TABLES: Final = tuple(map(defined, ALL_DEFINITIONS))
KNOWN: Final = known_parts((*TABLES, defined(MONEY_TABLE).replace("if not exists ", "")))  # as SQLite keeps it


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, within a transaction."""
    for statement in TABLES:
        db.execute(statement)
    db.execute("INSERT INTO meta VALUES (?, 0)", (VERSION,))
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")


class OlderTables(NamedTuple):
    """The tables of an older version, and how they become those of the next one."""

    definitions: tuple[str, ...]
    """Make the tables. No statement is run in a file that has anything beside them: see `foreign_parts`."""
    to_next: tuple[str, ...]
    """Make the tables of the next version of them, each with the very definition that it has in a new file.

    SQLite writes a definition anew when a table is altered. So the old table is renamed, its indexes are dropped, the
    new one is made and filled, and the old one is dropped.
    """


OLDER_TABLES: Final[Mapping[int, OlderTables]] = MappingProxyType({})
"""The tables of each older version that are brought up to date. Whoever raises `VERSION` must add one."""


def tables_of(version: int) -> Mapping[str, str] | None:
    """Return what a file with tables of *version* has, by name, as SQLite keeps it; `None` for an unknown version."""
    if version == VERSION:
        return KNOWN
    return known_parts(OLDER_TABLES[version].definitions) if version in OLDER_TABLES else None


def upgrade_tables(db: sqlite3.Connection, version: int) -> None:
    """Make the tables of today from those of the older *version*, within a transaction."""
    for older in range(version, VERSION):
        for statement in OLDER_TABLES[older].to_next:
            db.execute(statement)
            reach("TABLE_UPGRADED")
    db.execute("UPDATE meta SET version = ?", (VERSION,))
    db.execute(f"PRAGMA user_version = {VERSION}")


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether the file is a journal, by its `application_id`; an empty file has none yet."""
    return bool(pragma(connection, "application_id") == APPLICATION)


def pragma(connection: sqlite3.Connection, name: str) -> object:
    """Run a pragma of SQLite and return its value."""
    row: tuple[object, ...] = connection.execute(f"PRAGMA {name}").fetchone()
    return row[0]


@contextmanager
def without_waiting(db: sqlite3.Connection) -> Generator[None]:
    """Let statements fail at once that meet the lock of another connection.

    A checkpoint that empties the log would wait for those who read, and keep others from writing as long as it waits.
    """
    patience = pragma(db, "busy_timeout")
    db.execute("PRAGMA busy_timeout = 0")
    try:
        yield
    finally:
        db.execute(f"PRAGMA busy_timeout = {patience}")

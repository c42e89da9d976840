"""The tables as SQLite has them, and the settings of a new file."""

from __future__ import annotations

import sqlite3
from typing import Final

from agentrail.adapters.journals.sql.sql_tables import DEFINITIONS, VERSION
from agentrail.adapters.journals.sqlite.foreign_parts import known_parts
from agentrail.adapters.journals.sqlite.tables import APPLICATION

PAGE_SIZE: Final = 512
"""Bytes of a page of a new file. A commit writes whole pages, and for a short turn it writes 5 to 8 of them."""

NEW_FILE: Final = (f"page_size = {PAGE_SIZE}", "auto_vacuum = INCREMENTAL")
"""Settings that a file has from its first page on."""

TYPES: Final = (("~", ""), ("KEY", "integer primary key"), ("NUMBER", "integer"), ("BYTES", "blob"))

ALL_DEFINITIONS: Final = (
    *DEFINITIONS,
    "create table ~cleaning (mark integer primary key autoincrement)",
)
"""The definitions of the tables; `cleaning` has a row for each deletion whose bytes may still be in the file."""


def _defined(statement: str) -> str:
    for word, meaning in TYPES:
        statement = statement.replace(word, meaning)
    return statement


TABLES: Final = tuple(map(_defined, ALL_DEFINITIONS))
KNOWN: Final = known_parts(TABLES)


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, within a transaction."""
    for statement in TABLES:
        db.execute(statement)
    db.execute("INSERT INTO journal VALUES (?, 0)", (VERSION,))
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")

"""The tables of a store of knowledge."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from agentrail.knowledge.file_check import APPLICATION, FOREIGN, VERSION, check_version, unusable

TABLES: Final = {
    "meta": "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "document": "CREATE TABLE document(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, "
    "chars INTEGER NOT NULL, passages INTEGER NOT NULL, added_ms INTEGER NOT NULL)",
    "chunk": "CREATE TABLE chunk(id INTEGER PRIMARY KEY, document INTEGER NOT NULL, number INTEGER NOT NULL, "
    "heading TEXT NOT NULL, first INTEGER NOT NULL, past INTEGER NOT NULL, overlap INTEGER NOT NULL, "
    "text TEXT NOT NULL, words TEXT, vector BLOB, UNIQUE(document, number))",
    "words": "CREATE VIRTUAL TABLE words USING "
    "fts5(text, heading, content='', tokenize='unicode61 remove_diacritics 2')",
}
"""What makes each table.

`words` is an index without texts of its own: to take a row out of it, the indexed texts are given again. `chunk.words`
has the indexed text if it is not `text` itself: Python may spell a text otherwise with a later version of Unicode.
"""

SHADOWS: Final = ("words_config", "words_data", "words_docsize", "words_idx")
"""The tables that SQLite makes for `words`."""


def has_tables(db: sqlite3.Connection, path: Path) -> bool:
    """Whether *db* has the tables of a store; raise `OutsideError` if it has others, triggers or views."""
    schema = {
        str(name): str(sql)
        for name, sql in db.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_autoindex_%'")
    }
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if not schema and application in {0, APPLICATION}:
        return False
    if application != APPLICATION:
        raise unusable(path, FOREIGN)
    check_version(path, version)
    if {*schema} != {*TABLES, *SHADOWS} or any(schema[name] != sql for name, sql in TABLES.items()):
        raise unusable(path, "its tables are not those of a store; bring it back from a copy")
    return True


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, within the open transaction of *db*."""
    for statement in TABLES.values():
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")

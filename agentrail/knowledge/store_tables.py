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

SHADOWS: Final = {
    "words_config": "CREATE TABLE 'words_config'(k PRIMARY KEY, v) WITHOUT ROWID",
    "words_data": "CREATE TABLE 'words_data'(id INTEGER PRIMARY KEY, block BLOB)",
    "words_docsize": "CREATE TABLE 'words_docsize'(id INTEGER PRIMARY KEY, sz BLOB)",
    "words_idx": "CREATE TABLE 'words_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID",
}
"""The tables that SQLite makes for `words`. In a file from elsewhere, they could be views without an end."""

INDEXES: Final = ("sqlite_autoindex_document_1", "sqlite_autoindex_chunk_1")
"""The indexes that SQLite makes for what is unique."""

SCHEMA: Final = sorted(
    [("table", name, sql) for name, sql in (TABLES | SHADOWS).items()] + [("index", name, "") for name in INDEXES]
)
"""All that a store has: type, name and statement. A trigger may have the name of a table."""


def has_tables(db: sqlite3.Connection, path: Path) -> bool:
    """Whether *db* has the tables of a store; raise `OutsideError` if it has others, triggers or views."""
    select = "SELECT type, name, coalesce(sql, '') FROM sqlite_master LIMIT ?"
    schema = [(str(kind), str(name), str(sql)) for kind, name, sql in db.execute(select, (2 * len(SCHEMA),))]
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if not schema and application in {0, APPLICATION}:
        return False
    if application != APPLICATION:
        raise unusable(path, FOREIGN)
    check_version(path, version)
    if sorted(schema) != SCHEMA:
        raise unusable(path, "its tables are not those of a store; bring it back from a copy")
    return True


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, within the open transaction of *db*."""
    for statement in TABLES.values():
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {VERSION}")

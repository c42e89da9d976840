"""Finds what a file of SQLite has beside the tables and indexes of a journal.

A view, a trigger, and an expression in a table or an index are code of whoever made the file: it runs within the
statements of whoever reads it, and may never end. SQLite parses the definitions of a file without running them.
"""

from __future__ import annotations

import re
import sqlite3
from types import MappingProxyType
from typing import Final

from agentrail.adapters.journals.sqlite.tables import TABLES
from agentrail.values.untrusted_values import brief

_NAME: Final = re.compile(r"CREATE (?:UNIQUE )?(?:TABLE|INDEX) (\w+)")


def _in_one_line(definition: str) -> str:
    return " ".join(definition.split())


KNOWN: Final = MappingProxyType(
    {match[1]: _in_one_line(definition) for definition in TABLES if (match := _NAME.match(definition))}
    | {
        "sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)",
        "sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
        "sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
    }
)
"""The definition of each table and index by its name; SQLite makes the last three itself, two of them if asked to."""

_ALL: Final = """SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(sql AS BLOB)
FROM sqlite_master WHERE sql IS NOT NULL"""
"""As bytes, because those of a damaged file may be no text. An index that SQLite makes for a key has no definition."""


def foreign_part(connection: sqlite3.Connection) -> str | None:
    """Return why the file is not only a journal; `None` if it has nothing but tables and indexes of one."""
    for row in connection.execute(_ALL):
        kind, name, definition = [(column or b"").decode(errors="replace") for column in row]
        if KNOWN.get(name) != _in_one_line(definition):
            noun = kind if kind.isalpha() else "part"
            return (
                f"its {noun} {brief(name)} is damaged, or none that agentrail has made: its code would run with any "
                "use of the file; give another path, or if you have added it yourself, remove it with SQLite's shell"
            )
    return None

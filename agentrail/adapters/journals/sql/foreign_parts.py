"""Finds what a file of SQLite has beside the tables and indexes of a journal.

A view, a trigger, and an expression in a table or an index are code of whoever made the file: it runs within the
statements of whoever reads it, and may never end. SQLite parses the definitions of a file without running them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from agentrail.values.untrusted_values import brief

_NAME: Final = re.compile(r"CREATE (?:UNIQUE )?(?:TABLE|INDEX) (\w+)", re.IGNORECASE)


def _in_one_line(definition: str) -> str:
    return " ".join(definition.split())


_BY_SQLITE: Final = MappingProxyType(
    {
        "sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)",
        "sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
        "sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
    }
)
"""The tables that SQLite makes itself, two of them if asked to."""


def known_parts(definitions: Iterable[str]) -> Mapping[str, str]:
    """Return the definition of each table and index of a journal by its name, as SQLite keeps it."""
    parts = {match[1]: _in_one_line(definition) for definition in definitions if (match := _NAME.match(definition))}
    # SQLite writes the first words of a definition itself
    begun = {
        name: re.sub(r"^create (unique )?(table|index)", lambda m: m[0].upper(), text) for name, text in parts.items()
    }
    return MappingProxyType(begun | _BY_SQLITE)


_ALL: Final = """SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(sql AS BLOB)
FROM sqlite_master WHERE sql IS NOT NULL"""
"""As bytes, because those of a damaged file may be no text. An index that SQLite makes for a key has no definition."""


def foreign_part(connection: sqlite3.Connection, own_parts: Mapping[str, str]) -> str | None:
    """Return why the file is not only a journal; `None` if it has *own_parts* alone."""
    for row in connection.execute(_ALL):
        kind, name, definition = [(column or b"").decode(errors="replace") for column in row]
        if own_parts.get(name) != _in_one_line(definition):
            noun = kind if kind.isalpha() else "part"
            return (
                f"its {noun} {brief(name)} is damaged, or none that agentrail has made: its code would run with any "
                "use of the file; give another path, or if you have added it yourself, remove it with SQLite's shell"
            )
    return None

"""A journal that another connection makes while this one opens the file, before each statement in turn."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrail.adapters.journals.sql.journal_files import make_file
from agentrail.adapters.journals.sql.sqlite_dialect import SqliteDialect
from tests.adapters.journals.sick import Connection, connecting

FIRST_STATEMENTS = range(12)
"""More than a reader needs to find out whether there are tables."""


def write_and_leave(path: Path) -> None:
    """Open the journal for writing, which makes its tables, and let it go again."""
    SqliteDialect(path).connect().close()


def made_before(path: Path, number: int) -> Callable[..., sqlite3.Connection]:
    """Return how to connect so that the tables are made before the statement of this *number*."""
    left = number

    class Late(Connection):
        def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
            nonlocal left
            left -= 1
            if left == -1:
                write_and_leave(path)
            return super().execute(sql, parameters)

    return connecting(Late)


@pytest.mark.parametrize("number", FIRST_STATEMENTS)
def test_a_reader_may_come_while_the_tables_are_made(tmp_path: Path, number: int) -> None:
    path = tmp_path / "agentrail.db"
    make_file(path)
    connection = SqliteDialect(path, connect=made_before(path, number)).connect_to_read(lambda: False)
    if connection is not None:
        assert connection.run("SELECT count(*) FROM ~session") == [(0,)]
        connection.close()

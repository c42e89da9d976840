"""Connections of SQLite that fail where they are told to, as a disk would make them fail."""

import sqlite3
from collections.abc import Callable

Failing = Callable[[str], Exception | None]


class Connection(sqlite3.Connection):
    """A connection of SQLite that fails where it is told to."""

    failing: Failing = staticmethod(lambda _: None)

    def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
        error = type(self).failing(sql)
        if error is not None:
            raise error
        return super().execute(sql, parameters)  # type: ignore[arg-type]


def sqlite_error(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(f"made up: {name}")
    error.sqlite_errorname = name
    error.sqlite_errorcode = getattr(sqlite3, name)
    return error


def connecting(kind: type[Connection]) -> Callable[..., sqlite3.Connection]:
    def connect(database: str, **options: object) -> sqlite3.Connection:
        return sqlite3.connect(database, factory=kind, **options)  # type: ignore[call-overload,no-any-return]

    return connect

"""`Database`: one connection to the server, used by one thread; opened when it is needed, and again after a loss."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from agentrail.adapters.journals.postgres.server_tables import BEGUN, FOUND, LOCK, REACHED, VERSIONS
from agentrail.errors import JournalUnusable, WrongType

Row: TypeAlias = tuple[object, ...]
"""A row of a result."""

PATIENCE: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""After how long a server that does not answer is given up, unless the URL says otherwise; seconds, the last one ms."""

URLS: Final = ("postgresql://", "postgres://")
"""How a URL of a server begins."""

WANTED: Final = "`postgresql://user:password@host:5432/database`"


class Target:
    """A database, by its URL; its text is that URL without password and options."""

    __slots__ = ("_conninfo", "_shown")

    def __init__(self, url: str) -> None:
        if not url.startswith(URLS):
            raise WrongType("url", "a text that does not begin with `postgresql://`", WANTED)
        try:
            parts = conninfo_to_dict(url)
        except psycopg.Error:  # its text may quote the password
            raise WrongType("url", "a URL that cannot be parsed", WANTED) from None
        # libpq would quote these parts in its errors, and they may be those of a password
        host, port, name = (str(parts.get(part) or "") for part in ("host", "port", "dbname"))
        if "@" in host + name or not f"0{port}".replace(",", "").isdigit():
            wording = f"{WANTED}, with `%40` for each `@` in the password, `%2F` for `/` and `%3A` for `:`"
            raise WrongType("url", "a URL with an odd host, port or database", wording)
        options = {name: value for name, value in parts.items() if value is not None}
        # UTF-8 whatever the database has: of one in SQL_ASCII, psycopg would return texts as bytes
        encoding = {"client_encoding": "UTF8"}
        self._conninfo = make_conninfo("", **{**PATIENCE, "application_name": "agentrail", **options, **encoding})
        user = str(parts.get("user") or "")
        self._shown = f"postgresql://{user and f'{user}@'}{host}{port and f':{port}'}/{name}"

    def __str__(self) -> str:
        return self._shown

    def connect(self) -> psycopg.Connection[Row]:
        """Connect, in autocommit mode."""
        # no prepared statements: with a pool between, the next statement may be at another connection
        return psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)


class Database:
    """The connection of one thread to *target*."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._connection: psycopg.Connection[Row] | None = None

    def run(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement and return its rows; it is a transaction of its own, except within `transaction`."""
        cursor = self._open().execute(statement.encode(), values, binary=True)
        return cursor.fetchall() if cursor.description is not None else []

    @contextmanager
    def transaction(self, mode: str = "") -> Generator[None]:
        """Run the statements of the block in one transaction of *mode*, such as `read only`."""
        self.run(f"begin {mode}")
        try:
            yield
        except BaseException:
            if self._connection is not None and not self._connection.broken:
                self.run("rollback")
            raise
        self.run("commit")

    def close(self) -> None:
        """Close the connection; the next statement opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> psycopg.Connection[Row]:
        if self._connection is not None and (self._connection.broken or self._connection.closed):
            self.close()
        if self._connection is None:
            self._connection = self.target.connect()
            try:
                self._check_tables()
            except BaseException:
                self.close()
                raise
        return self._connection

    def _check_tables(self) -> None:
        """Make or upgrade the tables, unless they are there."""
        try:
            rows = self.run(FOUND)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            rows = []
        if rows != [(len(VERSIONS),)]:
            self._make_tables()

    def _make_tables(self) -> None:
        with self.transaction():
            self.run(LOCK)
            for statement in BEGUN:
                self.run(statement)
            version = cast("int", self.run(FOUND)[0][0])
            if version > len(VERSIONS):
                problem = (
                    f"its tables have version {version}, and this agentrail knows {len(VERSIONS)}; use a later one"
                )
                raise JournalUnusable(str(self.target), problem)
            for statements in VERSIONS[version:]:
                for statement in statements:
                    self.run(statement)
            self.run(REACHED, (len(VERSIONS),))

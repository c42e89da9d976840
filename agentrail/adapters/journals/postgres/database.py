"""`Target`: a database, by its URL, and how it is connected to."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from agentrail.adapters.journals.postgres.binary_arrays import register_arrays
from agentrail.adapters.journals.sql.sql_tables import SqlRow
from agentrail.errors import WrongType

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

    def connect(self) -> psycopg.Connection[SqlRow]:
        """Connect, in autocommit mode."""
        # no prepared statements: with a pool between, the next statement may be at another connection
        connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        register_arrays(connection)
        return connection

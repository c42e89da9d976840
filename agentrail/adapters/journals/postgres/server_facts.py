"""`server_facts`: what an operator has to know of the server of a journal; nothing is made or changed there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import psycopg

from agentrail.adapters.journals.postgres.database import Row, Target
from agentrail.adapters.journals.postgres.server_tables import FOUND, VERSIONS
from agentrail.adapters.journals.postgres.sqlstates import in_statement
from agentrail.values.value import Value

SERVER: Final = """select current_setting('server_version'), current_setting('server_version_num')::integer,
(extract(epoch from clock_timestamp()) * 1000)::bigint, pg_backend_pid(),
current_setting('fsync') = 'on' and current_setting('synchronous_commit') <> 'off', pg_is_in_recovery()"""

STORED: Final = """select count(*) filter (where head > 0), coalesce(max(epoch), 0),
(select last_value from agentrail.epoch) from agentrail.session"""

KNOWN: Final = len(VERSIONS)
"""The version of the tables that this code makes."""


class ServerFacts(Value):
    """The server of a journal, as one connection saw it."""

    version: str
    """Version of PostgreSQL, as it says it."""
    version_number: int
    """The same as a number, such as 150018."""
    ahead_ms: int
    """How many milliseconds the server's clock is ahead of that of this machine, at least; negative: behind."""
    is_pooled: bool
    """Whether a pool of connections is between."""
    is_durable: bool
    """Whether a commit is on the disk when it is answered."""
    is_replica: bool
    """Whether the server only follows another one, so that nothing can be written."""
    tables: int | None = None
    """Version of the journal's tables; `None` if there are none yet."""
    sessions: int = 0
    """How many sessions are stored."""
    highest_epoch: int = 0
    """The highest epoch of a session."""
    last_epoch: int = 0
    """The last epoch that the sequence gave, from which on it goes on."""


def server_facts(url: str, now_ms: Callable[[], int]) -> ServerFacts:
    """Connect to the server at *url* and return what it says; raise `JournalUnavailable` if it does not answer."""
    target = Target(url)
    try:
        with target.connect() as connection:
            return _stored(connection, _server(connection, now_ms))
    except psycopg.Error as error:
        raise in_statement(error, "look at its server", str(target)) from error


def _server(connection: psycopg.Connection[Row], now_ms: Callable[[], int]) -> ServerFacts:
    before = now_ms()
    (row,) = connection.execute(SERVER.encode()).fetchall()
    after = now_ms()
    version, number, now, process, is_durable, is_replica = cast("tuple[str, int, int, int, bool, bool]", row)
    ahead = min(now - before, 0) if now < before else max(now - after, 0)
    # A pool tells its clients a process of its own
    is_pooled = process != connection.info.backend_pid
    return ServerFacts(version, number, ahead, is_pooled, is_durable, is_replica)


def _stored(connection: psycopg.Connection[Row], facts: ServerFacts) -> ServerFacts:
    try:
        tables = cast("int", connection.execute(FOUND.encode()).fetchall()[0][0])
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return facts
    if tables != KNOWN:
        return facts.but(tables=tables)
    (row,) = connection.execute(STORED.encode()).fetchall()
    sessions, highest, last = cast("tuple[int, int, int]", row)
    return facts.but(tables=tables, sessions=sessions, highest_epoch=highest, last_epoch=last)

"""`server_facts`: what an operator has to know of the server of a journal; nothing is made or changed there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import psycopg

from agentrail.adapters.journals.postgres.database import Target
from agentrail.adapters.journals.postgres.server_tables import FOUND, VERSION, is_unreleased
from agentrail.adapters.journals.postgres.sqlstates import in_statement
from agentrail.adapters.journals.sql.sql_tables import SqlRow, as_stored, as_text
from agentrail.ports.journal import SLOTS, slot_claim
from agentrail.values.value import Value

SERVER: Final = """select current_setting('server_version'), current_setting('server_version_num')::integer,
(extract(epoch from clock_timestamp()) * 1000)::bigint, pg_backend_pid(),
current_setting('fsync') = 'on' and current_setting('synchronous_commit') <> 'off', pg_is_in_recovery(),
current_setting('archive_mode') <> 'off', current_setting('default_transaction_isolation')"""

STORED: Final = """select count(*) filter (where head > 0), coalesce(max(epoch), 0),
(select last_value from agentrail.epoch) from agentrail.session"""

SLOT_IDS: Final = [as_stored(slot_claim(slot)) for slot in range(SLOTS)]

HOLDERS: Final = """select holder, max(until) - agentrail.now_ms(), count(*) filter (where s.id = any(%b)),
count(*) filter (where head > 0)
from agentrail.lease join agentrail.session s on s.lease = lease.key and s.held = 1 where until > agentrail.now_ms()
group by holder order by holder"""

LEFT: Final = """select count(*) from agentrail.session s where at_work = 1 and not exists (
    select from agentrail.lease where lease.key = s.lease and s.held = 1 and until > agentrail.now_ms()
)"""


KNOWN: Final = VERSION
"""The version of the tables that this code makes."""


class HolderFacts(Value):
    """A process that runs sessions of a journal, or looks after slots."""

    address: str
    """What it calls itself: a host of several, the URL at which the others reach it."""
    left_ms: int
    """Milliseconds until its lease ends, unless it renews that."""
    slots: int
    """How many slots it looks after."""
    sessions: int
    """How many sessions it runs."""


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
    is_archived: bool = False
    """Whether its log is archived, so that it can be restored to any point in time."""
    isolation: str = "read committed"
    """How transactions are isolated that do not say it."""
    is_unreleased: bool = False
    """Whether the journal's tables are from before the first release of agentrail."""
    tables: int | None = None
    """Version of the journal's tables; `None` if there are none yet."""
    sessions: int = 0
    """How many sessions are stored."""
    highest_epoch: int = 0
    """The highest epoch of a session."""
    last_epoch: int = 0
    """The last epoch that the sequence gave, from which on it goes on."""
    holders: tuple[HolderFacts, ...] = ()
    """The processes whose leases last."""
    unattended: int = 0
    """How many sessions have work under way that no process carries out."""


def server_facts(url: str, now_ms: Callable[[], int]) -> ServerFacts:
    """Connect to the server at *url* and return what it says; raise `JournalUnavailable` if it does not answer."""
    target = Target(url)
    try:
        with target.connect() as connection:
            return _stored(connection, _server(connection, now_ms))
    except psycopg.Error as error:
        raise in_statement(error, "look at its server", str(target)) from error


def _server(connection: psycopg.Connection[SqlRow], now_ms: Callable[[], int]) -> ServerFacts:
    asked_at_ms = now_ms()
    (row,) = connection.execute(SERVER.encode()).fetchall()
    after = now_ms()
    version, number, now, process, is_durable, is_replica, is_archived, isolation = cast(
        "tuple[str, int, int, int, bool, bool, bool, str]", row
    )
    ahead = min(now - asked_at_ms, 0) if now < asked_at_ms else max(now - after, 0)
    # A pool tells its clients a process of its own
    is_pooled = process != connection.info.backend_pid
    return ServerFacts(version, number, ahead, is_pooled, is_durable, is_replica, is_archived, isolation)


def _stored(connection: psycopg.Connection[SqlRow], facts: ServerFacts) -> ServerFacts:
    if is_unreleased(connection):
        return facts.but(is_unreleased=True)
    try:
        tables = cast("int", connection.execute(FOUND.encode()).fetchall()[0][0])
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return facts
    if tables != VERSION:
        return facts.but(tables=tables)
    (row,) = connection.execute(STORED.encode()).fetchall()
    sessions, highest, last = cast("tuple[int, int, int]", row)
    ((unattended,),) = cast("list[tuple[int]]", connection.execute(LEFT.encode()).fetchall())
    return facts.but(
        tables=tables,
        sessions=sessions,
        highest_epoch=highest,
        last_epoch=last,
        holders=_holders(connection),
        unattended=unattended,
    )


def _holders(connection: psycopg.Connection[SqlRow]) -> tuple[HolderFacts, ...]:
    rows = connection.execute(HOLDERS.encode(), (SLOT_IDS,)).fetchall()
    return tuple(
        [
            HolderFacts(as_text(holder), lasts, slots, sessions)
            for holder, lasts, slots, sessions in cast("list[tuple[bytes, int, int, int]]", rows)
        ]
    )

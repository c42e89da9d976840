"""Older tables are brought up to date at the first opening, wherever the process or the server is killed meanwhile."""

import os
from types import MappingProxyType

import psycopg
import pytest
import trio

from agentrail.adapters.journals.postgres import server_tables
from agentrail.adapters.journals.postgres.postgres_dialect import PostgresDialect
from agentrail.adapters.journals.postgres.server_facts import server_facts
from agentrail.adapters.journals.postgres.server_tables import VERSION, defined
from agentrail.cli.reports.doctor import server_findings
from agentrail.codec.versions import UNRELEASED
from agentrail.errors import Fenced, JournalUnusable
from agentrail.journals import PostgresJournal
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.killed_forks import fork_killed_at
from tests.adapters.journals.older import (
    BACK,
    LATE,
    OLDER,
    TO_NEXT,
    Contents,
    contents,
    fill,
    know_older_records,
    older_code,
)
from tests.adapters.journals.postgres.server import PostgresServer, needs_postgres
from tests.adapters.journals.test_deleting import BY
from tests.kit import Failpoint, run_of, watching
from tests.recovery.writer import REACHED

pytestmark = [needs_postgres, pytest.mark.long]


@pytest.fixture
async def before(url: str) -> Contents:
    """What is in the tables, which are of version 0."""
    journal = PostgresJournal(url)
    found = await fill(journal)
    await journal.close()
    with psycopg.connect(url) as connection:
        for statement in BACK:
            connection.execute(defined(statement).encode())
    return found


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the upgrade from version 0."""
    statements = MappingProxyType({OLDER: tuple(map(defined, TO_NEXT))})
    monkeypatch.setattr(server_tables, "TO_NEXT", statements)


def version(url: str) -> object:
    with psycopg.connect(url) as connection:
        return connection.execute("select version from agentrail.meta").fetchall()


async def test_older_tables_are_refused_without_their_upgrade_and_not_changed(url: str, before: Contents) -> None:
    assert len(before[0]) == 4
    journal = PostgresJournal(url)
    for doing in (journal.sessions(), journal.claim("s", "test")):
        text = str(await raised(JournalUnusable, doing))
        assert "its tables have version 0, and this agentrail knows those from 1 on; use the agentrail that" in text
    await journal.close()
    assert version(url) == [(OLDER,)]


@pytest.mark.usefixtures("upgrade")
async def test_older_tables_are_brought_up_to_date_by_the_first_use(url: str, before: Contents) -> None:
    journal = PostgresJournal(url)
    assert await contents(journal) == before
    assert version(url) == [(VERSION,)]
    claim = await journal.claim("talked", "test")
    assert claim.epoch > LATE.epoch
    await raised(Fenced, journal.append(claim.but(epoch=LATE.epoch), 70, run_of("talked", 71, 1)))
    assert await journal.append(claim, 70, run_of("talked", 71, 1)) == 71
    assert await journal.delete("talked", *BY) == 2
    await journal.close()
    with psycopg.connect(url) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'agentrail'").fetchall()
    assert not any(name.startswith("old") for (name,) in tables)


@pytest.mark.usefixtures("upgrade")
async def test_many_upgrade_at_the_same_time(url: str, before: Contents) -> None:
    journals = [PostgresJournal(url) for _ in range(4)]
    async with trio.open_nursery() as nursery:
        for journal in journals:
            nursery.start_soon(journal.read, "talked")
    for journal in journals:
        assert await contents(journal) == before
        await journal.close()


@pytest.mark.usefixtures("upgrade")
async def test_a_process_that_is_killed_leaves_the_tables_as_they_were(url: str, before: Contents) -> None:
    index, status = 0, REACHED
    while status == REACHED:
        with psycopg.connect(url) as connection:
            connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")
            assert connection.execute("select version from agentrail.meta").fetchall() == [(OLDER,)]
        index += 1
        child = fork_killed_at(index, lambda: PostgresDialect(url).connect().begin())
        _, waited = await trio.to_thread.run_sync(os.waitpid, child, 0)
        status = os.waitstatus_to_exitcode(waited)
    assert (status, index > len(TO_NEXT)) == (0, True)
    journal = PostgresJournal(url)
    assert await contents(journal) == before
    await journal.close()


@pytest.mark.usefixtures("upgrade")
async def test_a_server_that_is_killed_keeps_the_tables_as_they_were(
    url: str, before: Contents, server: PostgresServer
) -> None:
    def watch(point: Failpoint) -> None:
        if point is Failpoint.TABLE_UPGRADED and server.process is not None:
            server.kill()

    journal = PostgresJournal(url)
    with watching(watch), pytest.raises(Exception, match="connection"):
        await journal.claim("s", "test")
    await trio.to_thread.run_sync(server.start)
    assert version(url) == [(OLDER,)]
    assert await contents(journal) == before
    await journal.close()


async def test_records_of_an_older_format_are_those_of_today(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with older_code(monkeypatch):
        journal = PostgresJournal(url)
        before = await fill(journal)
        await journal.close()
    with psycopg.connect(url) as connection:
        for table in ("record", "snapshot"):
            assert (OLDER,) in connection.execute(f"select format from agentrail.{table}".encode()).fetchall()  # noqa: S608
    know_older_records(monkeypatch)
    journal = PostgresJournal(url)
    assert await contents(journal) == before
    await journal.close()


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_tables_from_before_the_first_release_are_refused_whatever_their_version(url: str, number: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("create schema agentrail")
        connection.execute("create table agentrail.journal (version integer not null)")
        connection.execute("insert into agentrail.journal values (%s)", (number,))
    journal = PostgresJournal(url)
    for doing in (journal.sessions(), journal.claim("s", "test")):
        assert UNRELEASED in str(await raised(JournalUnusable, doing))
    await journal.close()
    facts = await trio.to_thread.run_sync(server_facts, url, lambda: 0)
    assert UNRELEASED in [to_do for _, _, to_do in server_findings(facts, VERSION)]
    with psycopg.connect(url) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'agentrail'").fetchall()
        assert tables == [("journal",)]

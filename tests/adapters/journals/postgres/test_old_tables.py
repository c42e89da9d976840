"""Tables of version 1 are converted at the first opening, wherever the process or the server is killed meanwhile."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import trio

from agentrail import State
from agentrail.adapters.journals.postgres.postgres_dialect import PostgresDialect
from agentrail.adapters.journals.sql.sql_tables import as_stored
from agentrail.errors import BadRecord, Fenced, JournalUnusable, SessionHeld
from agentrail.journals import Lease, PostgresJournal, SqliteJournal
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.postgres.server import PostgresServer, needs_postgres
from tests.adapters.journals.sampling import READ
from tests.adapters.journals.sql.test_conversion import REACHED, Contents, contents
from tests.adapters.journals.test_deleting import BY, talked
from tests.kit import Failpoint, Setup, opened, prompted, run_of, watching
from tests.recovery.eraser import NOTE

pytestmark = [needs_postgres, pytest.mark.long]

TABLES = Path(__file__).with_name("version_1.sql")

BACK = """
alter schema agentrail rename to new;
{tables}
select setval('agentrail.epoch', nextval('new.epoch'));
insert into agentrail.lease select key + 1000000, holder, until from new.lease;
insert into agentrail.session select id, epoch, lease + 1000000, held = 1, head, seq, checksum, due, at_work = 1,
    ended = 1, active from new.session;
insert into agentrail.record select s.id, number, r.epoch, r.seq, command, format, blobs, r.checksum, body, sealed
    from new.record r join new.session s on s.key = r.session;
insert into agentrail.snapshot select s.id, number, behind, format, blobs, r.checksum, body
    from new.snapshot r join new.session s on s.key = r.session;
insert into agentrail.blob select s.id, digest, content from new.blob r join new.session s on s.key = r.session;
insert into agentrail.about select session, parent, tenant, owner, spec, title, array(
        select convert_to(label, 'UTF8') from json_array_elements_text(convert_from(labels, 'UTF8')::json) as l (label)
    ), created from new.about;
drop schema new cascade
"""
"""Makes tables of version 1 of those of today; the keys of leases were numbers by chance, so they are large."""

LATE = """update agentrail.session set head = 71, seq = 71, "check" = '' where id = 'talked'"""
"""The part of a statement of an earlier agentrail."""


async def make_old(url: str) -> Contents:
    """Write tables of version 1 with all that they may have."""
    journal = PostgresJournal(url)
    await talked(journal, "talked", 70, 10)
    await talked(journal, "long", 3, 20_000)
    opening = State("child", Setup(path=("talked", "c1")), "demo", title="title", labels=("b", "a", 'é"\\'))
    claim = await journal.claim("child", "test")
    await journal.append(claim, 0, (prompted("child", 1, opening=opening, due=7, at_work=True),))
    await talked(journal, "redacted", 10)
    await journal.redact("redacted", 2, 5, NOTE, "")
    await opened(journal, "held", lease=Lease(0, 600_000))
    found = await contents(journal)
    await journal.close()
    with psycopg.connect(url) as connection:
        connection.execute(BACK.format(tables=await trio.Path(TABLES).read_text()).encode())
    return found


def copy_sample(path: Path, url: str) -> None:
    """Write the rows of a sample in SQLite into new tables of version 1."""
    with closing(sqlite3.connect(path)) as old, psycopg.connect(url) as connection:
        connection.execute("drop schema if exists agentrail cascade")
        connection.execute(TABLES.read_bytes())

        def write(table: str, query: str, *texts: int) -> None:
            for row in old.execute(query):
                values = [
                    as_stored(value) if index in texts and isinstance(value, str) else value
                    for index, value in enumerate(row)
                ]
                marks = ", ".join(["%s"] * len(values))
                connection.execute(f"insert into agentrail.{table} values ({marks})".encode(), values)  # noqa: S608

        rows = old.execute('select id, epoch, head, seq, "check", due, at_work, ended, active from session').fetchall()
        for name, epoch, head, seq, check, due, at_work, ended, active in rows:
            given = (as_stored(name), epoch, head, seq, check, due, bool(at_work), bool(ended), active)
            connection.execute(
                "insert into agentrail.session values (%s, %s, 0, false, %s, %s, %s, %s, %s, %s, %s)", given
            )
        columns = 'session, number, epoch, seq, command, format, blobs, "check", body, sealed'
        write("record", f"select {columns} from record", 0, 4)  # noqa: S608
        write("snapshot", 'select session, number, behind, format, blobs, "check", body from snapshot', 0)
        write("blob", "select session, digest, content from blob_use join blob using (digest)", 0)
        columns = "session, parent, tenant, owner, spec, title, labels, created"
        query = f"select {columns} from about left join child using (session)"  # noqa: S608
        for *texts, labels, created in old.execute(query):
            stored = [None if text is None else as_stored(text) for text in texts]
            values = (*stored, [as_stored(label) for label in json.loads(labels)], created)
            connection.execute("insert into agentrail.about values (%s, %s, %s, %s, %s, %s, %s, %s)", values)


async def test_all_that_was_there_is_there(url: str) -> None:
    before = await make_old(url)
    journal = PostgresJournal(url)
    assert await contents(journal) == before
    assert await journal.holders() == ("test",)
    await raised(SessionHeld, journal.claim("held", "another"))
    claim = await journal.claim("talked", "test")
    assert await journal.append(claim, 70, run_of("talked", 71, 1)) == 71
    assert [each.session_id for each in await journal.last_used(9, label='é"\\')] == ["child"]
    assert await journal.delete("talked", *BY) == 2
    await journal.close()
    with psycopg.connect(url) as connection:
        found = connection.execute("select tablename from pg_tables where schemaname = 'agentrail'").fetchall()
        assert not any(name.startswith("old") for (name,) in found)


async def test_a_process_with_earlier_statements_writes_nothing_late(url: str) -> None:
    await make_old(url)
    journal = PostgresJournal(url)
    before = await contents(journal)
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.UndefinedColumn):
        connection.execute(LATE)
    assert await contents(journal) == before
    await journal.close()


async def test_the_claims_of_before_count(url: str) -> None:
    await make_old(url)
    with psycopg.connect(url) as connection:
        rows = connection.execute("select epoch, nextval('agentrail.epoch') from agentrail.session where id = 'talked'")
        ((epoch, last),) = rows.fetchall()
    journal = PostgresJournal(url)
    claim = await journal.claim("talked", "test")
    assert claim.epoch > last
    await raised(Fenced, journal.append(claim.but(epoch=epoch), 70, run_of("talked", 71, 1)))
    await journal.close()


async def test_damage_is_found_as_before(url: str) -> None:
    await make_old(url)
    with psycopg.connect(url) as connection:
        connection.execute("update agentrail.record set body = 'x' where session = 'talked' and number = 7")
    journal = PostgresJournal(url)
    await raised(BadRecord, journal.read("talked"))
    assert len(await journal.read("long")) == 3
    await journal.close()


async def test_rows_of_no_session_are_not_lost(url: str) -> None:
    await make_old(url)
    with psycopg.connect(url) as connection:
        connection.execute("delete from agentrail.session where id = 'talked'")
    journal = PostgresJournal(url)
    error = await raised(JournalUnusable, journal.sessions())
    assert "70 rows of its table `record` belong to no session" in str(error)
    await journal.close()
    with psycopg.connect(url) as connection:
        assert connection.execute("select version from agentrail.journal").fetchall() == [(1,)]


async def test_many_convert_at_the_same_time(url: str) -> None:
    before = await make_old(url)
    journals = [PostgresJournal(url) for _ in range(4)]
    async with trio.open_nursery() as nursery:
        for journal in journals:
            nursery.start_soon(journal.read, "talked")
    for journal in journals:
        assert await contents(journal) == before
        await journal.close()


async def test_a_process_that_is_killed_leaves_the_tables_as_they_were(url: str) -> None:
    before = await make_old(url)
    place = 0
    status = REACHED
    while status == REACHED:
        place += 1
        child = os.fork()
        if not child:
            reached = 0

            def watch(_: Failpoint, place: int = place) -> None:
                nonlocal reached
                reached += 1
                if reached == place:
                    os._exit(REACHED)

            with watching(watch):
                PostgresDialect(url).connect().begin()
            os._exit(0)
        _, waited = os.waitpid(child, 0)  # noqa: ASYNC222 - nothing else runs here
        status = os.waitstatus_to_exitcode(waited)
        with psycopg.connect(url) as connection:
            expected = 1 if status == REACHED else 2
            assert connection.execute("select version from agentrail.journal").fetchall() == [(expected,)]
    assert (status, place > 8) == (0, True)
    journal = PostgresJournal(url)
    assert await contents(journal) == before
    await journal.close()


async def test_a_server_that_is_killed_keeps_the_tables_as_they_were(url: str, server: PostgresServer) -> None:
    before = await make_old(url)

    def watch(point: Failpoint) -> None:
        if point is Failpoint.BLOB_WRITTEN and server.process is not None:
            server.kill()

    journal = PostgresJournal(url)
    with watching(watch), pytest.raises(Exception, match="connection"):
        await journal.claim("s", "test")
    await trio.to_thread.run_sync(server.start)
    assert await contents(journal) == before
    await journal.close()


@pytest.mark.parametrize("folder", READ, ids=lambda folder: folder.name)
async def test_samples_of_earlier_formats_come_back(folder: Path, url: str, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    for path in await trio.to_thread.run_sync(lambda: sorted(copy.glob("*.db"))):
        copy_sample(path, url)
        old = SqliteJournal(path)
        before = await contents(old)
        await old.close()
        journal = PostgresJournal(url)
        assert await contents(journal) == before
        await journal.close()

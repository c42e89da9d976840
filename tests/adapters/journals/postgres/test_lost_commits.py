"""A journal on a server whose line is cut at a commit: what was written is accepted once, or it is said so."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

import psycopg
import pytest
import trio

from agentrail.adapters.journals.postgres.postgres_dialect import PostgresConnection, PostgresDialect
from agentrail.adapters.journals.postgres.postgres_writer import APPEND
from agentrail.adapters.journals.postgres.sqlstates import is_lost
from agentrail.adapters.journals.sql.sql_tables import SqlRow
from agentrail.errors import Fenced, JournalFailed, NothingWritten
from agentrail.journals import Lease, PostgresJournal, Redaction
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.postgres.proxy import CutLine
from tests.adapters.journals.postgres.server import PostgresServer, needs_postgres
from tests.kit import Failpoint, opened, prompted, run_of, watching
from tests.patience import PATIENCE

pytestmark = [needs_postgres, pytest.mark.long]


@pytest.fixture
def line(server: PostgresServer) -> Iterator[CutLine]:
    line = CutLine(server.port)
    yield line
    line.close()


@pytest.fixture
async def journal(url: str, line: CutLine, server: PostgresServer) -> AsyncIterator[PostgresJournal]:
    journal = PostgresJournal(url.replace(str(server.port), str(line.port)))
    yield journal
    line.is_down = False
    await journal.close()


@contextmanager
def cutting(line: CutLine, *, stays_down: bool = False) -> Iterator[None]:
    """Lose the answer to the next commit, and keep the line down from then on if it is to stay down."""

    def watch(point: Failpoint) -> None:
        if point is Failpoint.COMMIT:
            line.is_to_lose, line.is_down = True, stays_down

    with watching(watch):
        yield


async def test_a_commit_whose_answer_is_lost_is_accepted_once(journal: PostgresJournal, line: CutLine) -> None:
    claim = await opened(journal, "s", lease=Lease(0, 60_000))
    for head in range(3, 9):
        with cutting(line):
            assert await journal.append(claim, head, run_of("s", head + 1, 1)) == head + 1
    assert await journal.read("s") == run_of("s", 1, 9)
    assert await journal.renew([claim], Lease(0, 60_000)) == ()


async def test_a_transaction_whose_answer_is_lost_is_accepted_once(journal: PostgresJournal, line: CutLine) -> None:
    """What a session can be found by goes by a transaction: so does its first record."""
    claim = await journal.claim("s", "test")
    with cutting(line):
        assert await journal.append(claim, 0, run_of("s", 1, 3)) == 3
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
    assert await journal.read("s") == run_of("s", 1, 4)


async def test_a_statement_that_arrives_late_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, lost = PostgresConnection.run, list[Sequence[object]]()

    def lose(self: PostgresConnection, statement: str, values: Sequence[object] = ()) -> list[SqlRow]:
        if statement == APPEND and not lost:
            lost.append(values)
            raise psycopg.OperationalError("the line is cut")
        return run(self, statement, values)

    journal = PostgresJournal(url)
    claim = await opened(journal, "s", lease=Lease(0, 60_000))
    monkeypatch.setattr(PostgresConnection, "run", lose)
    await raised(NothingWritten, journal.append(claim, 3, run_of("s", 4, 1)))
    late = PostgresDialect(url).connect()
    late.begin()
    assert late.run(APPEND, lost[0]) == []
    late.commit()
    late.close()
    assert await journal.read("s") == run_of("s", 1, 3)
    for head in (3, 4, 5):
        assert await journal.append(claim, head, run_of("s", head + 1, 1)) == head + 1
    assert await journal.renew([claim], Lease(0, 60_000)) == ()
    await journal.close()


async def test_a_process_that_stops_within_a_transaction_keeps_nobody_waiting(url: str) -> None:
    journal = PostgresJournal(url)
    claim = await opened(journal, "s")
    stopped = PostgresDialect(url).connect()
    stopped.begin()
    assert stopped.run("select id from ~session for no key update") == [(b"s",)]
    with trio.fail_after(PATIENCE):
        assert (await journal.claim("s", "another")).epoch > claim.epoch
    with pytest.raises(psycopg.Error) as ended:
        stopped.run("update ~session set epoch = 0")
    assert is_lost(ended.value)
    stopped.close()
    await journal.close()


async def test_while_nobody_can_be_asked_it_is_in_doubt_and_then_it_is_read(
    journal: PostgresJournal, line: CutLine
) -> None:
    claim = await opened(journal, "s")
    with cutting(line, stays_down=True):
        await raised(JournalFailed, journal.append(claim, 3, run_of("s", 4, 1)))
    await raised(JournalFailed, journal.read("s"))
    line.is_down = False
    records = await journal.read("s")
    assert records == run_of("s", 1, 4)
    await raised(Fenced, journal.append(claim, 3, run_of("s", 4, 1)))
    assert await journal.append(claim, 4, run_of("s", 5, 1)) == 5


async def test_a_claim_whose_answer_is_lost_can_be_repeated(journal: PostgresJournal, line: CutLine) -> None:
    first = await opened(journal, "s")
    with cutting(line):
        await raised(NothingWritten, journal.claim("s", "test"))
    second = await journal.claim("s", "test")
    assert (second.epoch > first.epoch, second.head) == (True, 3)
    await raised(Fenced, journal.append(first, 3, run_of("s", 4, 1)))


@pytest.mark.parametrize("call", ["delete", "redact"])
async def test_a_removal_whose_answer_is_lost_is_not_said_to_have_done_nothing(
    journal: PostgresJournal, line: CutLine, call: str
) -> None:
    claim = await opened(journal, "s")
    with cutting(line):
        note = Redaction(1, "test")
        await raised(
            JournalFailed, journal.delete("s", "", 1) if call == "delete" else journal.redact("s", 1, 3, note, "")
        )
    records = await journal.read("s")
    assert (len(records), {record.redacted for record in records}) == ((0, set()) if call == "delete" else (3, {note}))
    await raised(Fenced, journal.append(claim, 3, run_of("s", 4, 1)))


async def test_a_server_that_is_killed_loses_nothing(journal: PostgresJournal, server: PostgresServer) -> None:
    claim = await opened(journal, "s")
    server.kill()
    await raised(JournalFailed, journal.append(claim, 3, run_of("s", 4, 1)))
    server.start()
    assert await journal.read("s") == run_of("s", 1, 3)
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_in_another_encoding_gives_back_the_texts_that_were_written(url: str, encoding: str) -> None:
    name = encoding.lower()
    with psycopg.connect(url, autocommit=True) as connection:
        made = f"create database {name} encoding '{encoding}' template template0 lc_collate 'C' lc_ctype 'C'"
        connection.execute(made.encode())
    journal = PostgresJournal(f"{url.rpartition('/')[0]}/{name}")
    claim = await opened(journal, "é 🙂")
    long = "word 🙂 " * 5_000
    assert await journal.append(claim, 3, (prompted("é 🙂", 4, long),)) == 4
    await journal.close()
    assert await journal.read("é 🙂", 3) == (prompted("é 🙂", 4, long),)
    await journal.close()

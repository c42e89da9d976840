"""A line that is cut while a statement runs: what was written is accepted once, and the session goes on."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest
import trio

from agentrail.errors import Fenced, JournalFailed, JournalUnavailable, NothingWritten
from agentrail.journals import Claim, Lease, PostgresJournal
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.postgres.proxy import CutLine
from tests.adapters.journals.postgres.server import PostgresServer, needs_postgres
from tests.kit import opened, run_of
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
def locked(url: str, session_id: str) -> Iterator[psycopg.Connection]:
    """Keep all statements that change a session waiting."""
    with psycopg.connect(url) as connection:
        connection.execute("select from agentrail.session where id = %s for update", (session_id.encode(),))
        yield connection


async def wait_for(url: str, count: int) -> None:
    """Wait until so many statements wait for a lock."""
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'agentrail'"
    with psycopg.connect(url, autocommit=True) as connection, trio.fail_after(PATIENCE):
        while connection.execute(query).fetchone() != (count,):  # noqa: ASYNC110 - nobody sets an event for it
            await trio.sleep(0.01)


async def test_a_commit_after_the_line_was_cut_is_accepted_once(
    journal: PostgresJournal, line: CutLine, url: str
) -> None:
    claim = await opened(journal, "s", lease=Lease(0, 60_000))
    heads: list[int] = []

    async def append() -> None:
        heads.append(await journal.append(claim, 3, run_of("s", 4, 2)))

    async with trio.open_nursery() as nursery:
        with locked(url, "s"):
            nursery.start_soon(append)
            await wait_for(url, 1)
            line.cut()
            await wait_for(url, 2)  # the statement, and the claim that settles it
    assert heads == [5]
    assert await journal.read("s") == run_of("s", 1, 5)
    assert await journal.append(claim, 5, run_of("s", 6, 1)) == 6
    assert await journal.renew([claim], Lease(0, 60_000)) == ()
    await journal.release([claim])
    assert (await journal.claim("s", "another")).head == 6
    await raised(Fenced, journal.append(claim, 6, run_of("s", 7, 1)))
    assert await journal.renew([claim], Lease(0, 60_000)) == (claim,)


async def test_what_did_not_arrive_is_written_when_it_is_repeated(journal: PostgresJournal, line: CutLine) -> None:
    claim = await opened(journal, "s")
    line.cut()
    await raised(NothingWritten, journal.append(claim, 3, run_of("s", 4, 1)))
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
    assert await journal.read("s") == run_of("s", 1, 4)


async def test_nothing_is_read_of_a_session_in_doubt_before_it_is_settled(
    journal: PostgresJournal, line: CutLine, url: str
) -> None:
    claim = await opened(journal, "s")
    other = await opened(journal, "t")
    errors: list[BaseException] = []

    async def append() -> None:
        errors.append(await raised(JournalFailed, journal.append(claim, 3, run_of("s", 4, 1))))

    async with trio.open_nursery() as nursery:
        with locked(url, "s"):
            nursery.start_soon(append)
            await wait_for(url, 1)
            line.is_down = True
            line.cut()
    assert len(errors) == 1
    await raised(JournalFailed, journal.read("s"))
    line.is_down = False
    assert await journal.read("s") == run_of("s", 1, 4)
    assert await journal.append(claim, 4, run_of("s", 5, 1)) == 5
    # it is written by another connection, which was cut, too
    await raised(NothingWritten, journal.append(other, 3, run_of("t", 4, 1)))
    assert await journal.append(other, 3, run_of("t", 4, 1)) == 4


@pytest.mark.parametrize("doing", ["claim", "renew", "release", "keep"])
async def test_a_line_that_is_lost_between_calls_is_opened_again(
    doing: str, journal: PostgresJournal, line: CutLine
) -> None:
    claim = await opened(journal, "s", lease=Lease(0, 60_000))
    line.cut()

    async def repeated(call: Callable[[], Awaitable[object]]) -> object:
        try:
            return await call()
        except JournalUnavailable:
            return await call()

    if doing == "claim":
        assert (await journal.claim("s", "test")).head == 3
    elif doing == "renew":
        assert await repeated(lambda: journal.renew([claim], Lease(0, 1000))) == ()
    elif doing == "release":
        await repeated(lambda: journal.release([claim]))
        assert (await journal.claim("s", "another")).head == 3
    else:
        assert await repeated(lambda: journal.read("s")) == run_of("s", 1, 3)


async def test_another_holder_that_claims_meanwhile_is_not_disturbed(
    journal: PostgresJournal, line: CutLine, url: str
) -> None:
    claim = await opened(journal, "s")
    theirs = PostgresJournal(url)
    later: list[Claim] = []

    async def append() -> None:
        with suppress(NothingWritten):  # that is found out before the other one has the session, at times
            await raised(Fenced, journal.append(claim, 3, run_of("s", 4, 1)))

    async def claim_it() -> None:
        later.append(await theirs.claim("s", "another"))

    async with trio.open_nursery() as nursery:
        with locked(url, "s"):
            nursery.start_soon(claim_it)
            await wait_for(url, 1)
            nursery.start_soon(append)
            await wait_for(url, 2)
            line.cut()
    await raised(Fenced, journal.append(claim, 3, run_of("s", 4, 1)))
    assert await theirs.append(later[0], 3, run_of("s", 4, 1)) == 4
    await theirs.close()

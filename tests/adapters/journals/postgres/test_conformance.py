from collections.abc import AsyncIterator
from typing import ClassVar

import psycopg
import pytest

from agentrail.journals import Journal, PostgresJournal
from agentrail.testing import JournalConformance, StrictConformance
from tests.adapters.journals.postgres.proxy import CutLine
from tests.adapters.journals.postgres.server import (
    PgBouncer,
    PostgresServer,
    needs_pgbouncer,
    needs_postgres,
)

pytestmark = pytest.mark.long


class ServerClock:
    """Sets the clock of the journal: the function by which its statements ask the server for the time."""

    url: ClassVar[str]

    async def set_clock(self, journal: Journal, at: int) -> None:
        """Replace the function, once the tables are there."""
        await journal.sessions()
        with psycopg.connect(self.url) as connection:
            returns = f"returns bigint language sql volatile as 'select {at}::bigint'"
            statement = f"create or replace function agentrail.now_ms() {returns}"
            connection.execute(statement.encode())


@needs_postgres
class TestPostgres(ServerClock, JournalConformance, StrictConformance):
    @pytest.fixture
    async def journal(self, url: str) -> AsyncIterator[Journal]:
        type(self).url = url
        journal = PostgresJournal(url)
        yield journal
        await journal.close()

    async def test_each_filter_finds_what_it_asks_for_page_by_page(self, journal: Journal) -> None:
        """Each of its records is a statement, which takes long."""
        await super().test_each_filter_finds_what_it_asks_for_page_by_page(journal)


@pytest.mark.campaign
@needs_postgres
class TestCutPostgres(ServerClock, JournalConformance):
    """Over a line that is cut now and then."""

    line: ClassVar[CutLine]

    @pytest.fixture
    async def journal(self, url: str, server: PostgresServer) -> AsyncIterator[Journal]:
        type(self).url = url
        type(self).line = CutLine(server.port)
        journal = PostgresJournal(url.replace(str(server.port), str(self.line.port)))
        yield journal
        await journal.close()
        self.line.close()

    async def lose_answer(self, journal: Journal) -> bool:
        """Cut the line in place of the next answer."""
        self.line.is_to_lose = True
        return True

    async def test_each_filter_finds_what_it_asks_for_page_by_page(self, journal: Journal) -> None:
        """Each of its records is a statement, which takes long."""
        await super().test_each_filter_finds_what_it_asks_for_page_by_page(journal)


@needs_pgbouncer
class TestBouncedPostgres(ServerClock, JournalConformance, StrictConformance):
    """Through a pool that gives each transaction another connection."""

    @pytest.fixture
    async def journal(self, url: str, pool: PgBouncer) -> AsyncIterator[Journal]:
        type(self).url = url
        journal = PostgresJournal(pool.url)
        yield journal
        await journal.close()

    @pytest.mark.campaign
    async def test_each_filter_finds_what_it_asks_for_page_by_page(self, journal: Journal) -> None:
        """Each of its records is a statement, which takes long; `TestPostgres` does the same without a pool."""
        await super().test_each_filter_finds_what_it_asks_for_page_by_page(journal)


@pytest.mark.campaign
@needs_postgres
class TestReopenedPostgres(ServerClock, JournalConformance, StrictConformance):
    """Each time another object, as another process has it."""

    opened: ClassVar[list[PostgresJournal]] = []

    @pytest.fixture
    async def journal(self, url: str) -> AsyncIterator[Journal]:
        type(self).url = url
        self.opened[:] = [PostgresJournal(url)]
        yield self.opened[0]
        for journal in self.opened:
            await journal.close()

    async def again(self, journal: Journal) -> Journal:
        await journal.close()
        self.opened.append(PostgresJournal(self.url))
        return self.opened[-1]

    async def test_each_filter_finds_what_it_asks_for_page_by_page(self, journal: Journal) -> None:
        """Each of its records is a statement, which takes long."""
        await super().test_each_filter_finds_what_it_asks_for_page_by_page(journal)

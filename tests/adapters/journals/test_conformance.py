from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

import pytest

from agentrail.adapters.journals.sql.sql_journal import SqlJournal
from agentrail.adapters.journals.sql.sqlite_dialect import SqliteDialect
from agentrail.journals import Journal, MemoryJournal, SqliteJournal
from agentrail.testing import JournalConformance, StrictConformance


class TestMemory(JournalConformance):
    @pytest.fixture
    def journal(self) -> Journal:
        return MemoryJournal()


class TestEncodedMemory(JournalConformance, StrictConformance):
    @pytest.fixture
    def journal(self) -> Journal:
        return MemoryJournal(encode=True)

    @pytest.mark.long
    async def test_each_filter_finds_what_it_asks_for_page_by_page(self, journal: Journal) -> None:
        """Each of its records is written and read, which takes long."""
        await super().test_each_filter_finds_what_it_asks_for_page_by_page(journal)


class TestSqlite(JournalConformance, StrictConformance):
    @pytest.fixture
    async def journal(self, tmp_path: Path) -> AsyncIterator[Journal]:
        journal = SqliteJournal(tmp_path / "agentrail.db")
        yield journal
        await journal.close()


class TestReopenedSqlite(JournalConformance, StrictConformance):
    """Each time another object on the same file, as another process has it."""

    opened: ClassVar[list[SqliteJournal]] = []

    @pytest.fixture
    async def journal(self, tmp_path: Path) -> AsyncIterator[Journal]:
        self.opened[:] = [SqliteJournal(tmp_path / "agentrail.db", sync="normal")]
        yield self.opened[0]
        for journal in self.opened:
            await journal.close()

    async def again(self, journal: Journal) -> Journal:
        await journal.close()
        self.opened.append(SqliteJournal(self.opened[0].path))
        return self.opened[-1]


class TestSqlOnSqlite(JournalConformance, StrictConformance):
    @pytest.fixture
    async def journal(self, tmp_path: Path) -> AsyncIterator[Journal]:
        journal = SqlJournal(SqliteDialect(tmp_path / "agentrail.db"))
        yield journal
        await journal.close()


class TestReopenedSqlOnSqlite(JournalConformance, StrictConformance):
    """Each time another object on the same file, while the first one is open: as another process has it."""

    opened: ClassVar[list[SqlJournal]] = []
    path: ClassVar[Path]

    @pytest.fixture
    async def journal(self, tmp_path: Path) -> AsyncIterator[Journal]:
        type(self).path = tmp_path / "agentrail.db"
        self.opened[:] = [SqlJournal(SqliteDialect(self.path, sync="normal"))]
        yield self.opened[0]
        for journal in self.opened:
            await journal.close()

    async def again(self, journal: Journal) -> Journal:
        self.opened.append(SqlJournal(SqliteDialect(self.path)))
        return self.opened[-1]

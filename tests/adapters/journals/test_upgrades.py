"""Sessions of an older format come back and go on, wherever the process is killed that brings the file up to date."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.journals.sql.sql_tables import VERSION
from agentrail.adapters.journals.sql.sqlite_dialect import SqliteDialect
from agentrail.adapters.journals.sql.sqlite_tables import defined
from agentrail.errors import BadArchive, BadRecord, Fenced, JournalUnusable
from agentrail.journals import MemoryJournal, SqliteJournal, export_session, import_session
from agentrail.testing import ScriptedModel
from agentrail.testing.conformance.expected_errors import raised
from agentrail.version import __version__
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
    know_older_tables,
    older_code,
)
from tests.adapters.journals.test_deleting import BY, is_whole
from tests.kit import run_of
from tests.recovery.writer import REACHED

FORMATS = f"has format 0, and agentrail {__version__} reads formats from 1 on"
TABLES = f"its tables have version 0, and agentrail {__version__} knows {VERSION}"


def spec() -> SessionSpec:
    return SessionSpec(model=ScriptedModel(["fine"], repeat_last=True), name="calm")


def schema(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        definitions = db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        return [*definitions, *db.execute("PRAGMA user_version"), *db.execute("SELECT version FROM meta")]


# Records, snapshots and exports


async def test_a_session_of_an_older_format_comes_back_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.db"
    with older_code(monkeypatch):
        journal = SqliteJournal(path)
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.spawn(spec(), "mine")
            for _ in range(3):
                await session.ask("well?")
            said = session.messages()
        await journal.close()
    with closing(sqlite3.connect(path)) as db:
        stored = db.execute("SELECT format, body FROM record UNION ALL SELECT format, body FROM snapshot").fetchall()
    assert {form for form, _ in stored} == {OLDER}
    assert [body for _, body in stored if b'"talk"' in body]
    assert not [body for _, body in stored if b'"history"' in body]
    journal = SqliteJournal(path)
    assert FORMATS in str(await raised(BadRecord, journal.read("mine")))
    know_older_records(monkeypatch)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("mine", spec())
        assert session.messages() == said
        assert (await session.ask("and now?")).text == "fine"
    await journal.close()


async def test_all_records_and_snapshots_of_an_older_format_are_those_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = SqliteJournal(tmp_path / "new.db")
    now = await fill(journal)
    await journal.close()
    with older_code(monkeypatch):
        journal = SqliteJournal(tmp_path / "old.db")
        assert await fill(journal) == now
        await journal.close()
    know_older_records(monkeypatch)
    journal = SqliteJournal(tmp_path / "old.db")
    assert await contents(journal) == now
    await journal.close()


async def test_an_export_of_an_older_format_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, journal = tmp_path / "session.jsonl", MemoryJournal()
    await fill(journal)
    with older_code(monkeypatch):
        await export_session(journal, "long", file)
    assert b'"format":0,"record":' in file.read_bytes()  # noqa: ASYNC240 - nobody else waits
    into = MemoryJournal()
    assert FORMATS in str(await raised(BadArchive, import_session(into, file)))
    assert await into.sessions() == ()
    know_older_records(monkeypatch)
    assert await import_session(into, file) == "long"
    assert await into.read("long") == await journal.read("long")


# Tables in a file


@pytest.fixture
async def written(tmp_path: Path) -> tuple[Path, Contents]:
    """A file with tables of version 0, and what is in it."""
    path = tmp_path / "journal" / "agentrail.db"
    path.parent.mkdir()
    journal = SqliteJournal(path)
    found = await fill(journal)
    await journal.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN")
        for statement in (*map(defined, BACK), f"PRAGMA user_version = {OLDER}"):
            db.execute(statement)
        db.execute("COMMIT")
    return path, found


async def test_older_tables_are_refused_without_their_upgrade_and_not_changed(written: tuple[Path, Contents]) -> None:
    path, _ = written
    before = path.read_bytes()  # noqa: ASYNC240 - nobody else waits
    journal = SqliteJournal(path)
    for doing in (journal.sessions(), journal.claim("s", "test")):
        assert TABLES in str(await raised(JournalUnusable, doing))
    await journal.close()
    assert path.read_bytes() == before  # noqa: ASYNC240


@pytest.mark.parametrize("first", ["read", "write"])
async def test_older_tables_are_brought_up_to_date_by_the_first_use(
    written: tuple[Path, Contents], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    path, before = written
    know_older_tables(monkeypatch)
    journal = SqliteJournal(path)
    if first == "write":
        await raised(Fenced, journal.append(LATE.but(epoch=0), 70, run_of("talked", 71, 1)))
    assert await contents(journal) == before
    claim = await journal.claim("talked", "test")
    assert claim.epoch > LATE.epoch
    assert await journal.append(claim, 70, run_of("talked", 71, 1)) == 71
    assert await journal.delete("talked", *BY) == 2
    await journal.close()
    new = SqliteJournal(tmp_path / "new.db")
    await new.claim("s", "test")
    await new.close()
    assert schema(path) == schema(tmp_path / "new.db")
    assert is_whole(path)
    assert [file.name for file in path.parent.iterdir()] == ["agentrail.db"]


async def test_what_is_not_of_the_older_tables_is_refused_before_a_statement_runs(
    written: tuple[Path, Contents], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = written
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TRIGGER odd AFTER INSERT ON about BEGIN DELETE FROM record; END")
    know_older_tables(monkeypatch)
    before = path.read_bytes()  # noqa: ASYNC240 - nobody else waits
    journal = SqliteJournal(path)
    for doing in (journal.sessions(), journal.claim("s", "test")):
        assert "its trigger 'odd'" in str(await raised(JournalUnusable, doing))
    await journal.close()
    assert path.read_bytes() == before  # noqa: ASYNC240


async def test_an_upgrade_that_does_not_lead_to_the_tables_of_today_changes_nothing(
    written: tuple[Path, Contents], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = written
    know_older_tables(monkeypatch, TO_NEXT[:-1])
    journal = SqliteJournal(path)
    for doing in (journal.claim("s", "test"), journal.sessions()):
        assert "its table 'old_about' is damaged" in str(await raised(JournalUnusable, doing))
    await journal.close()
    know_older_tables(monkeypatch)
    journal = SqliteJournal(path)
    assert await contents(journal) == before
    await journal.close()


async def test_who_has_the_file_open_notices_that_a_later_version_has_upgraded_it(tmp_path: Path) -> None:
    path = tmp_path / "agentrail.db"
    journal = SqliteJournal(path)
    claim = await journal.claim("s", "test")
    await journal.append(claim, 0, run_of("s", 1, 1))
    assert len(await journal.read("s")) == 1
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    for _ in range(2):
        for doing in (journal.append(claim, 1, run_of("s", 2, 1)), journal.read("s"), journal.sessions()):
            text = str(await raised(JournalUnusable, doing))
            assert f"its tables have version {VERSION + 1}, and agentrail {__version__} knows {VERSION}" in text
    await journal.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM record").fetchall() == [(1,)]


@pytest.mark.long
async def test_a_process_that_is_killed_leaves_a_whole_file(
    written: tuple[Path, Contents], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = written
    know_older_tables(monkeypatch)
    index, status = 0, REACHED
    while status == REACHED:
        index += 1
        copy = Path(shutil.copytree(path.parent, tmp_path / f"killed-{index}")) / path.name
        child = fork_killed_at(index, SqliteDialect(copy).connect)
        _, waited = os.waitpid(child, 0)  # noqa: ASYNC222 - nothing else runs here
        status = os.waitstatus_to_exitcode(waited)
        journal = SqliteJournal(copy)
        assert await contents(journal) == before, index
        await journal.close()
    assert (status, index > len(TO_NEXT)) == (0, True)


PROCESS = """
import sys, trio
import pytest
from agentrail.journals import SqliteJournal
from tests.adapters.journals.older import know_older_tables
know_older_tables(pytest.MonkeyPatch())
trio.run(SqliteJournal(sys.argv[1]).claim, "talked", "test")
"""


@pytest.mark.long
async def test_of_processes_that_begin_together_one_upgrades_the_file(
    written: tuple[Path, Contents], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = written
    command = [sys.executable, "-c", PROCESS, str(path)]
    processes = [subprocess.Popen(command) for _ in range(3)]  # noqa: ASYNC220, S603 - our own program
    assert [await trio.to_thread.run_sync(process.wait) for process in processes] == [0, 0, 0]
    know_older_tables(monkeypatch)
    journal = SqliteJournal(path)
    found = await contents(journal)
    assert found[1:] == before[1:]
    await journal.close()

"""A journal is copied to a server and back, also by a process that is killed in between."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from agentrail.journals import Lease, PostgresJournal, SqliteJournal
from agentrail.runtime.shared.clock import Clock
from tests.adapters.journals.postgres.server import needs_postgres
from tests.adapters.journals.test_session_copy import check_same, copied, fill
from tests.kit import opened

pytestmark = [needs_postgres, pytest.mark.long]


async def test_a_copy_by_a_server_is_the_journal_again(url: str, tmp_path: Path) -> None:
    source, server, target = (
        SqliteJournal(tmp_path / "from.db"),
        PostgresJournal(url),
        SqliteJournal(tmp_path / "to.db"),
    )
    await fill(source)
    for new in (119, 0):
        report = await copied(source, server)
        assert (report.problems, report.whole, report.new) == ({}, 5, new)
    await check_same(source, server)
    assert await server.holders() == ()
    assert (await copied(server, target)).problems == {}
    await check_same(source, target)
    for journal in (source, server, target):
        await journal.close()


async def test_who_holds_a_session_at_the_source_is_known(url: str) -> None:
    server = PostgresJournal(url)
    await opened(server, "a")
    assert await server.holders() == ()
    await server.claim("a", "https://one", Lease(Clock().now_ms(), 60_000))
    assert await server.holders() == ("https://one",)
    await server.close()


def records_in(url: str) -> int:
    """Return how many records a database has, also while its tables are made."""
    with psycopg.connect(url) as connection:
        try:
            (row,) = connection.execute(b"select count(*) from agentrail.record").fetchall()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return 0
    return int(row[0])


@pytest.mark.campaign
async def test_a_copy_to_a_server_that_is_killed_goes_on(url: str, tmp_path: Path) -> None:
    source = SqliteJournal(tmp_path / "from.db", sync="normal")
    for number in range(40):
        await opened(source, f"s{number}", 5 + 10 * number % 70)
    await opened(source, "long", 1_500)
    await source.close()
    command = [sys.executable, "-m", "agentrail", "journal", "copy", str(tmp_path / "from.db"), url]
    for least in (1, 150, 800, 1_700):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:  # noqa: S603, ASYNC220
            while process.poll() is None and records_in(url) < least:
                pass
            process.kill()
    final = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603, ASYNC221
    assert (final.returncode, final.stdout) == (0, ""), final.stderr
    assert "41 of 41 sessions with " in final.stderr
    assert "secret" not in final.stderr
    server = PostgresJournal(url)
    await check_same(source, server)
    await server.close()
    await source.close()

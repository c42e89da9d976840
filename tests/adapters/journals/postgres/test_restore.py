"""A server is backed up, goes on, is lost, and is restored to a point in time or from a dump, with PostgreSQL's tools.

What was acknowledged before that point is there, and processes that go on with later claims are fenced.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import trio

from agentrail.errors import Fenced, JournalFailed, NothingWritten
from agentrail.journals import Lease, PostgresJournal
from agentrail.testing.conformance.expected_errors import raised
from agentrail.testing.conformance.journal_tests import PRIVATE, told
from tests.adapters.journals.postgres.server import (
    PostgresServer,
    folder_of_servers,
    needs_postgres,
    program,
)
from tests.cli.calling import subcommand
from tests.kit import opened, run_of

main = subcommand("journal")

pytestmark = [needs_postgres, pytest.mark.long]

LASTS = Lease(0, 600_000)


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_of_servers() as folder:
        yield folder


async def command(*words: str) -> int:
    """Run `agentrail journal` as a program does it, beside the event loop of the test; return its exit status."""
    return await trio.to_thread.run_sync(main, words)


def value(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as db:
        (row,) = db.execute(query.encode()).fetchall()
    return row[0]


def archiving(folder: Path) -> PostgresServer:
    """Start a server that archives its log."""
    (folder / "archive").mkdir()
    (folder / "archive").chmod(0o777)
    server = PostgresServer(folder, "wal_level=replica", "archive_mode=on", "archive_command=cp %p ../archive/%f")
    server.make()
    server.start()
    return server


def run_tool(server: PostgresServer, name: str, *words: str) -> None:
    """Run a tool of PostgreSQL that connects to *server*."""
    server.environment = {"LC_ALL": "C", "PGPASSWORD": "secret@pass"}
    server.run(program(name), "--host=127.0.0.1", f"--port={server.port}", "--username=tester", *words)


def start_restored(lost: PostgresServer, point: str) -> PostgresServer:
    """Start a server at the address of the one that was *lost*, from its backup, at the *point* in time."""
    with (lost.folder / "backup" / "postgresql.auto.conf").open("a") as file:
        file.write(
            "restore_command = 'cp ../archive/%f %p'\n"
            f"recovery_target_time = '{point}'\nrecovery_target_action = 'pause'\n"
        )
    (lost.folder / "backup" / "recovery.signal").touch()
    restored = PostgresServer(lost.folder, data="backup")
    restored.port, restored.url = lost.port, lost.url
    restored.start()
    return restored


@pytest.mark.campaign
async def test_a_server_is_restored_to_a_point_in_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = archiving(folder)
    journal = PostgresJournal(server.url)
    early = await opened(journal, "early", lease=LASTS)
    run_tool(server, "pg_basebackup", "--pgdata=backup", "--checkpoint=fast", "--no-sync")
    late = await opened(journal, "late", lease=LASTS)
    assert await journal.append(early, 3, run_of("early", 4, 2)) == 5
    point = str(value(server.url, "select clock_timestamp()"))
    assert await journal.append(late, 3, run_of("late", 4, 2)) == 5  # after the point: given up
    never = await opened(journal, "never")
    value(server.url, "select pg_switch_wal()")
    server.stop(signal.SIGINT)

    restored = start_restored(server, point)
    try:
        # An operator looks at it before it takes records; what is asked too early may be asked again.
        await raised(JournalFailed, journal.append(early, 5, run_of("early", 6, 1)))
        await raised(NothingWritten, journal.claim("early", "another", take_over=True))
        assert await command("restored", restored.url) == 1
        assert "read-only" in capsys.readouterr().err
        assert value(restored.url, "select pg_promote()") is True
        assert await command("restored", restored.url) == 0
        assert "2 sessions with 8 records were read, 0 of them damaged" in capsys.readouterr().err
        assert await journal.read("early") == run_of("early", 1, 5)
        assert await journal.read("late") == run_of("late", 1, 3)
        assert await journal.read("never") == ()
        for claim, head in ((early, 5), (late, 3), (late, 5), (never, 3)):
            await raised(Fenced, journal.append(claim, head, run_of(claim.session_id, head + 1, 1)))
        again = await journal.claim("late", "another")
        assert again.epoch > never.epoch
        assert await journal.append(again, 3, run_of("late", 4, 1)) == 4
        assert await journal.renew([early, late], LASTS) == (early, late)
    finally:
        await journal.close()
        restored.kill()


async def test_a_dump_is_restored_to_another_server(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = PostgresServer(folder)
    server.make()
    server.start()
    try:
        journal = PostgresJournal(server.url)
        claim = await opened(journal, "s", lease=LASTS)
        run_tool(server, "pg_dump", "--schema=agentrail", "--format=custom", "--file=dump", "postgres")
        with psycopg.connect(server.url, autocommit=True) as db:
            db.execute("create database restored")
        run_tool(server, "pg_restore", "--dbname=restored", "--exit-on-error", "dump")
        url = server.url.replace("/postgres", "/restored")
        other = PostgresJournal(url)
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("update agentrail.record set body = 'x' where number = 2")
        assert await command("restored", url) == 1
        printed = capsys.readouterr()
        assert printed.out.startswith("s: ")
        assert "1 session with 0 records were read, 1 of them damaged" in printed.err
        await raised(Fenced, other.append(claim, 3, run_of("s", 4, 1)))
        assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
        for each in (journal, other):
            await each.close()
    finally:
        server.kill()


@pytest.mark.campaign
async def test_deleted_texts_are_gone_from_the_files_after_vacuum(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = PostgresServer(folder)
    server.make()
    server.start()
    try:
        journal = PostgresJournal(server.url)
        await opened(journal, "stays")
        gone = await journal.claim("gone", "test")
        await journal.append(gone, 0, (told("gone", 1),))
        with psycopg.connect(server.url, autocommit=True) as db:
            db.execute("checkpoint")
        await journal.delete("gone", "test", 0)
        assert in_files(folder)
        assert await command("vacuum", server.url) == 0
        assert "are written anew" in capsys.readouterr().err
        assert not in_files(folder)
        assert await journal.read("stays") == run_of("stays", 1, 3)
        await journal.close()
    finally:
        server.kill()


def in_files(folder: Path) -> bool:
    """Whether the private text is in the files of the tables."""
    return any(
        PRIVATE.encode() in file.read_bytes() for file in (folder / "data" / "base").rglob("*") if file.is_file()
    )


def test_a_file_is_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("restored", "vacuum"):
        assert main([command, str(tmp_path / "j.db")]) == 2
        assert "is no URL of a server" in capsys.readouterr().err

"""What a journal in PostgreSQL does beside what each journal does."""

import logging
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from unittest.mock import patch

import psycopg
import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.journals.postgres.binary_arrays import array_of
from agentrail.adapters.journals.postgres.postgres_dialect import PostgresConnection, PostgresDialect
from agentrail.adapters.journals.postgres.postgres_writer import PostgresWriter
from agentrail.adapters.journals.postgres.sqlstates import in_statement, is_lost, is_outage
from agentrail.errors import (
    BrokenJournal,
    ExtraMissing,
    Fenced,
    JournalFailed,
    JournalFull,
    JournalUnavailable,
    JournalUnusable,
    NothingWritten,
    SessionHeld,
    WrongType,
)
from agentrail.journals import Claim, Lease, PostgresJournal
from agentrail.runtime.shared import clock
from agentrail.testing import ScriptedModel
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.postgres.server import PostgresServer, needs_postgres
from tests.adapters.journals.test_listing import check_last_used
from tests.cli.calling import subcommand
from tests.kit import opened, run_of
from tests.patience import PATIENCE

main = subcommand("sessions")

pytestmark = [needs_postgres, pytest.mark.long]

SECRET = "hunter2"


@pytest.fixture
async def journal(url: str) -> AsyncIterator[PostgresJournal]:
    journal = PostgresJournal(url)
    yield journal
    await journal.close()


async def test_of_processes_that_take_over_from_the_same_holder_at_once_one_has_the_session(url: str) -> None:
    names = ("a", "b", "c")
    journals = {name: PostgresJournal(url) for name in names}
    outcomes: dict[str, Claim | SessionHeld] = {}

    async def take(name: str) -> None:
        try:
            outcomes[name] = await journals[name].claim("s", name, Lease(0, 60_000), take_over="dead")
        except SessionHeld as held:
            outcomes[name] = held

    for _ in range(5):
        await journals["a"].claim("s", "dead", Lease(0, 60_000), take_over=True)
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(take, name)
        (winner,) = [name for name, outcome in outcomes.items() if isinstance(outcome, Claim)]
        assert {outcome.holder for outcome in outcomes.values() if isinstance(outcome, SessionHeld)} == {winner}
    for journal in journals.values():
        await journal.close()


async def test_a_database_without_an_encoding_gives_back_the_texts_that_were_written(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create database plain encoding 'SQL_ASCII' template template0 lc_collate 'C' lc_ctype 'C'")
    plain = url.replace("/postgres", "/plain")
    async with open_supervisor(journal=PostgresJournal(plain)) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["schön"])), "s")
        await session.ask("grüße")
    async with open_supervisor(journal=PostgresJournal(plain)) as supervisor:
        session = await supervisor.resume("s", SessionSpec(model=ScriptedModel([])))
        assert [message.text for message in session.messages()] == ["grüße", "schön"]


# Places and passwords


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://u:{SECRET}@h/d",
        f"postgresql://u:{SECRET}@h:port/d",
        f"postgresql://u:a@{SECRET}@h/d",
        f"postgresql://u:{SECRET}/more@h/d",
        f"postgresql://u:12/{SECRET}@h/d",
        f"postgresql://u:{SECRET}@h/d?nonsense={SECRET}",
        f"postgresql://u:{SECRET}%@h/d",
    ],
)
def test_a_url_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(WrongType) as refused:
        PostgresJournal(url)
    assert SECRET not in f"{refused.value}{refused.value.__cause__}"
    assert "postgresql://user:password@host:5432/database" in str(refused.value)


async def test_no_error_and_no_log_shows_a_password(
    url: str, server: PostgresServer, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = url.replace("secret%40pass", SECRET)
    journal = PostgresJournal(wrong)
    error = await raised(JournalUnavailable, journal.claim("s", "test"))
    assert str(journal) == f"<PostgresJournal 'postgresql://tester@127.0.0.1:{server.port}/postgres' in use>"
    await journal.close()
    assert "password authentication failed" in str(error)
    assert await trio.to_thread.run_sync(main, ["--journal", wrong]) != 0
    shown = f"{error!r}{error}{error.__cause__}{journal!r}{caplog.text}{capsys.readouterr()}"
    assert SECRET not in shown


async def test_commands_take_the_url_of_a_server(
    journal: PostgresJournal, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"])), "trip")
        assert (await session.ask("go")).text == "fine"
    assert await trio.to_thread.run_sync(main, ["--journal", url]) == 0
    assert "trip" in capsys.readouterr().out
    assert await trio.to_thread.run_sync(main, ["show", "none", "--journal", url]) != 0
    error = capsys.readouterr().err
    assert "there is no session `none` in postgresql://tester@127.0.0.1" in error


def test_without_the_extra_nothing_of_psycopg_is_imported() -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from agentrail.journals import PostgresJournal
try:
    PostgresJournal("postgresql://h/d")
except Exception as error:
    print(type(error).__name__, error)
"""
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout  # noqa: S603 - the code above
    assert shown.startswith(ExtraMissing.__name__)
    assert "[postgres]" in shown


# Errors


@pytest.mark.parametrize(
    ("error", "mapped", "is_lost_"),
    [
        (psycopg.OperationalError("the connection is lost"), JournalFailed, True),
        (psycopg.errors.AdminShutdown(), JournalFailed, True),
        (psycopg.errors.ConnectionFailure(), JournalFailed, True),
        (psycopg.errors.DeadlockDetected(), NothingWritten, False),
        (psycopg.errors.TooManyConnections(), NothingWritten, False),
        (psycopg.errors.DiskFull(), JournalFull, False),
        (psycopg.errors.IoError(), NothingWritten, False),
        (psycopg.errors.InvalidCatalogName(), JournalUnusable, False),
        (psycopg.errors.InsufficientPrivilege(), JournalUnusable, False),
        (psycopg.DataError("NUL"), BrokenJournal, False),
        (psycopg.errors.NumericValueOutOfRange(), BrokenJournal, False),
        (psycopg.errors.UniqueViolation(), BrokenJournal, False),
        (psycopg.ProgrammingError("no such placeholder"), BrokenJournal, False),
    ],
)
def test_only_what_may_pass_is_an_outage(error: psycopg.Error, mapped: type[Exception], is_lost_: bool) -> None:
    assert type(in_statement(error, "write", "postgresql://h/d")) is mapped
    assert is_lost(error) is is_lost_
    assert is_outage(error) is (mapped in {JournalFailed, NothingWritten, JournalFull})


# Tables


async def test_many_begin_at_the_same_time(url: str) -> None:
    journals = [PostgresJournal(url) for _ in range(5)]
    async with trio.open_nursery() as nursery:
        for number, journal in enumerate(journals):
            nursery.start_soon(opened, journal, f"s{number}")
    assert len(await journals[0].sessions()) == 5
    for journal in journals:
        await journal.close()


async def test_later_tables_are_refused(url: str) -> None:
    journal = PostgresJournal(url)
    await opened(journal, "s")
    await journal.close()
    with psycopg.connect(url) as connection:
        connection.execute("update agentrail.meta set version = 3")
    error = await raised(JournalUnusable, journal.read("s"))
    assert "version 3, and this agentrail knows 1" in str(error)
    await journal.close()


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("NUMBER", []),
        ("NUMBER", [0, -1, 2**63 - 1, -(2**63)]),
        ("NUMBER", [None, 7, None]),
        ("BYTES", [b"", None, b"\0\xff" * 9_000]),
        ("text", ["", "é 🙂", "a b"]),
    ],
)
def test_arrays_arrive_as_they_were(type_: str, values: list[object], url: str) -> None:
    db = PostgresDialect(url).connect()
    type_there = {"NUMBER": "bigint", "BYTES": "bytea", "text": "text"}[type_]
    rows = db.run(f"select * from unnest(?::{type_there}[])", (array_of(type_, values),))  # noqa: S608
    assert rows == [(value,) for value in values]
    db.close()


# One statement, and transactions


async def test_a_claim_of_another_process_is_noticed_by_the_statement(journal: PostgresJournal, url: str) -> None:
    claim = await opened(journal, "s")
    assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
    other = PostgresJournal(url)
    theirs = await other.claim("s", "another")
    fenced = await raised(Fenced, journal.append(claim, 4, run_of("s", 5, 1)))
    assert f"{theirs.epoch}" in str(fenced)
    assert await other.append(theirs, 4, run_of("s", 5, 1)) == 5
    assert await journal.read("s") == run_of("s", 1, 5)
    await other.close()


async def test_a_turn_of_a_session_is_written_without_a_transaction(
    journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[None] = []
    begin = PostgresConnection.begin

    def counted(self: PostgresConnection) -> bool:
        begun.append(None)
        return begin(self)

    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one", "two"])), "s")
        await session.ask("hi")
        head = len(await journal.read("s"))
        with monkeypatch.context() as patched:
            patched.setattr(PostgresConnection, "begin", counted)
            await session.ask("and?")
        assert len(await journal.read("s")) > head
        assert begun == []


async def test_the_same_claim_is_used_in_two_processes(journal: PostgresJournal, url: str) -> None:
    claim = await opened(journal, "s")
    other = PostgresJournal(url)
    for head, each in enumerate((journal, other, other, journal, other), 3):
        assert await each.append(claim, head, run_of("s", head + 1, 1)) == head + 1
    await raised(Fenced, journal.append(claim, 7, run_of("s", 8, 1)))
    assert await journal.read("s") == run_of("s", 1, 8)
    await other.close()


async def test_a_statement_that_cannot_be_made_leaves_nothing_behind(
    journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = await opened(journal, "s")
    with monkeypatch.context() as patched:
        patched.setattr(PostgresWriter, "_values", lambda *_: 1 // 0)
        assert await journal.append(claim, 3, run_of("s", 4, 1)) == 4
    assert await journal.append(claim, 4, run_of("s", 5, 1)) == 5
    assert await journal.read("s") == run_of("s", 1, 5)


# Leases


async def test_the_last_used_are_listed_the_last_one_first(journal: PostgresJournal) -> None:
    await check_last_used(journal)


async def test_renewing_writes_no_row_of_a_session(journal: PostgresJournal, url: str) -> None:
    claims = [await journal.claim(f"s{number}", "test", Lease(0, 60_000)) for number in range(30)]
    query = "select xmin, id from agentrail.session order by id"
    with psycopg.connect(url, autocommit=True) as db:
        before = db.execute(query).fetchall()
        assert await journal.renew(claims, Lease(0, 60_000)) == ()
        assert db.execute(query).fetchall() == before


async def test_a_process_that_starts_at_an_address_does_not_hold_what_the_one_before_it_held(
    journal: PostgresJournal, url: str
) -> None:
    await opened(journal, "old", lease=Lease(0, 50))
    again = PostgresJournal(url)
    await opened(again, "new", lease=Lease(0, 60_000))
    await trio.sleep(0.1)
    assert (await again.claim("old", "another")).head == 3
    await raised(SessionHeld, again.claim("new", "another"))
    await again.close()


@pytest.mark.parametrize(("days", "kept"), [(29, ["test", "new"]), (31, ["new"])])
async def test_leases_of_processes_that_ended_long_ago_are_deleted(
    days: int, kept: list[str], journal: PostgresJournal, url: str
) -> None:
    claim = await opened(journal, "s", lease=Lease(0, 60_000))
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("update agentrail.lease set until = until - %s", (days * 86_400_000,))
        again = PostgresJournal(url)
        await again.claim("t", "new", Lease(0, 60_000))
        found = db.execute("select convert_from(holder, 'utf-8') from agentrail.lease order by holder desc")
        assert [row[0] for row in found.fetchall()] == kept
    lost = await journal.renew([claim], Lease(0, 60_000))
    assert (lost == ()) == ("test" in kept)
    if lost:
        assert (await again.claim("s", "new")).head == 3
    await again.close()


async def test_a_process_that_claims_again_after_a_long_time_has_a_lease(
    journal: PostgresJournal, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened(journal, "s", lease=Lease(0, 60_000))
    now_of = PostgresConnection.now
    monkeypatch.setattr(PostgresConnection, "now", lambda self, at: now_of(self, at) + 50 * 86_400_000)
    again = PostgresJournal(url)
    await again.claim("t", "new", Lease(0, 60_000))  # this deletes the lease that has ended
    claim = await journal.claim("s", "test", Lease(0, 60_000))
    await raised(SessionHeld, again.claim("s", "another"))
    assert await journal.renew([claim], Lease(0, 60_000)) == ()
    await again.close()


@pytest.mark.parametrize("off", [-60, 60])
async def test_a_held_session_is_seldom_claimed_whatever_the_clock_shows(off: int, url: str) -> None:
    """The clock of a supervisor is a minute wrong; it waits for a session that another one holds."""

    class Counted(PostgresJournal):
        claims = 0

        async def claim(self, session_id: str, *args: object, **more: object) -> Claim:
            if session_id == "s":
                self.claims += 1
            return await super().claim(session_id, *args, **more)  # type: ignore[arg-type]

    holder, waiting = PostgresJournal(url), Counted(url)

    def build() -> SessionSpec:
        return SessionSpec(model=ScriptedModel(["fine"]), name="n")

    async with open_supervisor(journal=holder) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"]), name="n"), "s")
        await session.ask("go")
    await holder.claim("s", "a living one", Lease(0, 300))
    with psycopg.connect(url) as db:
        db.execute("update agentrail.session set at_work = 1")
    with patch.object(clock, "time", SimpleNamespace(time=lambda: time.time() + off)):
        async with open_supervisor(journal=waiting, specs={"n": build}) as supervisor:
            began = trio.current_time()
            with trio.fail_after(PATIENCE):
                while not supervisor.sessions():  # noqa: ASYNC110 - nobody sets an event for it
                    await trio.sleep(0.01)
            took = trio.current_time() - began
            assert waiting.claims < 5 * took + 2
    await holder.close()
    await waiting.close()

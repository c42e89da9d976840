"""A disk that is full, failing or slow under a whole supervisor: nothing is lost, and whoever asks is told."""

import json
import logging
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from agentrail import open_supervisor
from agentrail.errors import CommitUnknown, JournalFailed, JournalFull, NothingWritten, SessionCrashed
from agentrail.events import AbortPending, AgentAbort, AgentEnd, MessageDelta, SessionRestarted
from agentrail.journals import SqliteJournal
from agentrail.testing import ScriptedModel, say
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.sick import Connection, Failing, connecting, sqlite_error
from tests.kit import opened, run_of
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.journals import AwakeJournal, Dozing
from tests.runtime.world import Heard, listen, spec_of, until
from tests.sandboxes.kinds import needs_bubblewrap

T = TypeVar("T")

MANY = 1_000_000

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)


class Sick(Connection):
    """A connection that fails as the test says."""


class Limited(Connection):
    """A connection whose file has at most this many pages, or those that it has already."""

    pages = MANY

    def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
        if sql == "BEGIN IMMEDIATE":
            super().execute(f"PRAGMA max_page_count = {self.pages}")
        return super().execute(sql, parameters)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agentrail.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[Dozing]:
    yield Dozing(SqliteJournal(path, connect=connecting(Sick)))
    Sick.failing = staticmethod(lambda _: None)


def failing_at(statement: str, code: str) -> Failing:
    return staticmethod(lambda sql: sqlite_error(code) if sql.startswith(statement) else None)


async def spin(holds: Callable[[], object]) -> None:
    """Wait for a thread, in real time: the virtual clock stands still while somebody runs."""
    while not holds():
        await trio.lowlevel.checkpoint()


async def stored(path: Path, name: str) -> list[object]:
    """Return the durable events of a session, as the next process finds them."""
    journal = AwakeJournal(SqliteJournal(path))
    found = [envelope for record in await journal.read(name) for envelope in record.events]
    await journal.close()
    return list(found)


@pytest.mark.long
@needs_bubblewrap
def test_a_really_full_disk_stops_everything_but_aborts_until_there_is_space(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    size = str(1 << 20)
    inside = ("bwrap", "--dev-bind", "/", "/", "--die-with-parent", "--size", size, "--tmpfs", str(small))
    command = (*inside, sys.executable, "-m", "tests.adapters.journals.full_disk", str(small))
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)  # noqa: S603 - our own words
    assert done.returncode == 0, done.stderr.decode()
    facts = json.loads(done.stdout)
    assert facts.pop("said").startswith("the journal has no space (")
    assert "SQLITE_FULL" in facts.pop("refused")
    assert facts == {
        "deltas after the abort": 0,
        "while full": [[], 0, 0],
        "ran": ["x"],
        "next": "three",
        "lines": 1,
        "published and stored": [True, True],
    }


@in_virtual_time
async def test_a_file_that_may_not_grow_is_a_full_disk(path: Path) -> None:
    """The same without a small file system: SQLite itself says that there is no space."""
    journal = AwakeJournal(SqliteJournal(path, connect=connecting(Limited)))
    heard = Heard()
    async with open_supervisor(journal=journal, seed=1) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one", "two", "three"])), "s")
        await nursery.start(listen, session, heard)
        await session.ask("one?")
        await until(lambda: heard.of(AgentEnd))
        Limited.pages = 1
        before = len(heard.durable)
        async with trio.open_nursery() as callers:
            callers.start_soon(session.prompt, "two? " * 1_000)
            await trio.sleep(10)
            with pytest.raises(JournalFull, match="SQLITE_FULL"):
                await session.prompt("three?")
            assert len(heard.durable) == before
            Limited.pages = MANY
        await until(lambda: len(heard.of(AgentEnd)) == 2)
        assert (await session.ask("three?")).text == "three"
        nursery.cancel_scope.cancel()
    assert (await stored(path, "s"))[: len(heard.durable)] == heard.durable


@in_virtual_time
@pytest.mark.parametrize("code", ["SQLITE_IOERR_WRITE", "SQLITE_FULL", "SQLITE_BUSY"])
async def test_what_fails_before_the_commit_is_tried_again(journal: Dozing, path: Path, code: str) -> None:
    heard = Heard()
    async with open_supervisor(journal=journal, seed=1) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(spec_of(ScriptedModel(["one"])), "s")
        await nursery.start(listen, session, heard)
        Sick.failing = failing_at("INSERT INTO record", code)
        async with trio.open_nursery() as callers:
            callers.start_soon(session.prompt, "one?")
            await trio.sleep(10)
            assert heard.names == ["SessionStarted"]
            with pytest.raises(NothingWritten, match=code):
                await session.prompt("two?")
            Sick.failing = staticmethod(lambda _: None)
        await until(lambda: heard.of(AgentEnd))
        nursery.cancel_scope.cancel()
    assert (await stored(path, "s"))[: len(heard.durable)] == heard.durable


@pytest.mark.long
@in_virtual_time
@pytest.mark.parametrize("code", ["SQLITE_IOERR_FSYNC", "SQLITE_IOERR_WRITE", "SQLITE_NOMEM"])
async def test_a_commit_that_fails_is_taken_back_and_done_once_when_the_disk_is_back(
    journal: Dozing, path: Path, code: str
) -> None:
    heard = {name: Heard() for name in ("s", "t")}
    async with open_supervisor(journal=journal, seed=1) as supervisor, trio.open_nursery() as nursery:
        sessions = {name: await supervisor.spawn(spec_of(ScriptedModel(["one", "two"])), name) for name in heard}
        for name, session in sessions.items():
            await nursery.start(listen, session, heard[name])
            assert (await session.ask("one?")).text == "one"
            await until(partial(heard[name].of, AgentEnd))
        Sick.failing = failing_at("COMMIT", code)
        async with trio.open_nursery() as callers:
            for session in sessions.values():
                callers.start_soon(session.prompt, "two?")
            await trio.sleep(100)
            for name, session in sessions.items():
                with pytest.raises(JournalFailed, match=code):
                    await session.prompt("three?")
                assert len(heard[name].of(AgentEnd)) == 1
            Sick.failing = staticmethod(lambda _: None)
        await until(lambda: [len(each.of(AgentEnd)) for each in heard.values()] == [2, 2])
        nursery.cancel_scope.cancel()
    for name, each in heard.items():
        assert each.of(SessionRestarted) == []
        assert (await stored(path, name))[: len(each.durable)] == each.durable


@in_virtual_time
async def test_a_sync_that_may_have_lost_commits_ends_everything(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `sync="normal"`: the log is synced by the checkpoint alone, after its commits were answered."""
    monkeypatch.setattr("agentrail.adapters.journals.sql.sqlite_dialect.CHECKPOINT_AFTER", 0)
    journal = Dozing(SqliteJournal(path, connect=connecting(Sick), sync="normal"))

    async def until_it_ends() -> None:
        async with open_supervisor(journal=journal, seed=1) as supervisor:
            session = await supervisor.spawn(spec_of(ScriptedModel(["one", "two"])), "s")
            assert (await session.ask("one?")).text == "one"
            Sick.failing = failing_at("PRAGMA wal_checkpoint", "SQLITE_IOERR_FSYNC")
            with pytest.raises(SessionCrashed, match="CommitUnknown"):
                await session.ask("two?")
            await trio.sleep(100)

    with pytest.raises(CommitUnknown, match="SQLITE_IOERR_FSYNC"):
        await until_it_ends()
    assert any(record.levelno == logging.CRITICAL for record in caplog.records)
    Sick.failing = staticmethod(lambda _: None)


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "then"),
    [("once", ["two", "due"]), ("while", ["two", "due"]), ("ever", "not written yet")],
)
async def test_files_that_may_not_grow_hold_sessions_up_and_end_none(path: Path, how: str, then: object) -> None:
    command = (sys.executable, "-m", "tests.adapters.journals.small_files", str(path), how)
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)  # noqa: ASYNC221, S603 - our own words
    assert done.returncode == 0, done.stderr.decode()
    facts = json.loads(done.stdout)
    assert facts == {"first": ["one", "uno"], "then": then, "said": ["JournalFailed: True"]}
    for name, count in (("s", 1 if how == "ever" else 2), ("t", 1 if how == "ever" else 2)):
        kinds = [type(envelope.event) for envelope in await stored(path, name)]  # type: ignore[attr-defined]
        assert kinds.count(AgentEnd) == count


@pytest.mark.long
@in_virtual_time
async def test_while_a_sync_takes_long_an_abort_stops_at_once_and_says_that_it_is_being_written(
    journal: Dozing, path: Path
) -> None:
    heard = Heard()
    begun, done = threading.Event(), threading.Event()

    def slow(sql: str) -> Exception | None:
        if sql == "COMMIT":
            begun.set()
            done.wait(30)
        return None

    async with open_supervisor(journal=journal, seed=1) as supervisor, trio.open_nursery() as nursery:
        model = ScriptedModel([say("word " * 10_000, delay=0.01), "next"])
        session = await supervisor.spawn(spec_of(model), "s")
        await nursery.start(listen, session, heard)
        await session.prompt("go")
        await until(lambda: len(heard.of(MessageDelta)) > 5)
        Sick.failing = staticmethod(slow)
        journal.dozing = True
        nursery.start_soon(session.steer, "and then?")
        await spin(begun.is_set)
        began, deltas = trio.current_time(), len(heard.of(MessageDelta))
        async with trio.open_nursery() as callers:
            callers.start_soon(session.abort)
            await until(lambda: heard.of(AbortPending))
            assert trio.current_time() - began <= 0.1
            await trio.sleep(1.0)
            assert len(heard.of(MessageDelta)) == deltas, "the model is not heard any more"
            assert heard.of(AgentAbort) == []
            journal.dozing = False
            done.set()
            await spin(lambda: heard.of(AgentAbort))
        assert (await session.ask("next?")).text == "next"
        nursery.cancel_scope.cancel()
    assert (await stored(path, "s"))[: len(heard.durable)] == heard.durable


async def test_a_read_that_fails_is_told_as_it_failed_and_not_as_damage(path: Path) -> None:
    """SQLite ends the transaction by itself after such an error: taking it back once more would be the error told."""
    journal = SqliteJournal(path)
    await opened(journal, "theirs")
    whole = (log := path.with_name(f"{path.name}-wal")).read_bytes()  # noqa: ASYNC240 - nobody else waits
    os.truncate(log, 32)
    for doing in (journal.read("theirs"), journal.sessions()):
        told = str(await raised(JournalFailed, doing))
        assert "could not read what it holds (" in told
        assert "SQLITE_IOERR_SHORT_READ" in told
    log.write_bytes(whole)  # noqa: ASYNC240
    assert await journal.read("theirs") == run_of("theirs", 1, 3)
    await journal.close()

"""Command ids in a journal whose index of them is damaged: found all the same, or refused, and never taken for new."""

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import trio

from agentrail import Accepted, SessionSpec, State, open_supervisor
from agentrail.errors import JournalError
from agentrail.journals import Record, SqliteJournal
from agentrail.testing import ScriptedModel
from tests.adapters.journals.test_damage import flipped
from tests.kit import Setup, prompted
from tests.profiles import CAMPAIGN

COMMANDS = tuple(f"command-{number:03}" for number in range(1, 81))
SPREAD = 7 if CAMPAIGN else 501

LACKS = """PRAGMA writable_schema = ON;
CREATE TEMP TABLE said AS SELECT sql FROM main.sqlite_master WHERE name = 'record_by_command';
DROP INDEX record_by_command;
CREATE INDEX record_by_command ON record (session, command) WHERE command IS NOT NULL AND command <> '{0}';
UPDATE main.sqlite_master SET sql = (SELECT sql FROM said) WHERE name = 'record_by_command';"""
"""Makes an index that lacks one command and says that it has all."""


def record(number: int) -> Record:
    opening = State("s", Setup(), "demo") if number == 1 else None
    command = COMMANDS[number - 1]
    return prompted(
        "s", number, f"prompt {number}", opening=opening, command=command, answer=Accepted(f"p{number}", "started")
    )


async def fill(path: Path) -> None:
    journal = SqliteJournal(path, sync="normal")
    claim = await journal.claim("s", "test")
    for head in range(len(COMMANDS)):
        await journal.append(claim, head, [record(head + 1)])
    await journal.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    trio.run(partial(fill, tmp_path / "journal.db"))
    return tmp_path / "journal.db"


async def looked_up(path: Path, *commands: str) -> list[object]:
    """Return what a new process is told of *commands*: what was answered, or an error."""
    journal = SqliteJournal(path)
    found: list[object] = []
    for command in commands:
        try:
            stored = await journal.answer("s", command)
            found.append(None if stored is None else stored.answer)
        except JournalError as error:
            found.append(error)
    await journal.close()
    return found


def is_fine(command: str, found: object) -> bool:
    return isinstance(found, JournalError) or found == Accepted(f"p{COMMANDS.index(command) + 1}", "started")


@pytest.mark.long
def test_a_changed_bit_of_a_command_makes_it_never_new(path: Path) -> None:
    """Its name stands in its record, beside that, and in the index."""
    whole, wanted = path.read_bytes(), COMMANDS[17]
    at = -1
    places: list[int] = []
    while (at := whole.find(wanted.encode(), at + 1)) >= 0:
        places.append(at)
    assert len(places) >= 3
    for place in places:
        for byte in range(place, place + len(wanted)):
            path.write_bytes(flipped(whole, byte, 1))
            (found,) = trio.run(looked_up, path, wanted)
            assert is_fine(wanted, found), byte


@pytest.mark.long
def test_a_changed_bit_anywhere_makes_no_command_new(path: Path) -> None:
    whole, some = path.read_bytes(), COMMANDS[::13]
    for at in range(0, len(whole), SPREAD):
        path.write_bytes(flipped(whole, at, at % 8))
        for command, found in zip(some, trio.run(looked_up, path, *some), strict=True):
            assert is_fine(command, found), (at, command)


def without(path: Path, command: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.executescript(LACKS.format(command))


def test_a_command_that_is_lost_from_the_index_is_found_in_the_records(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    without(path, COMMANDS[40])
    first, lost, new = trio.run(looked_up, path, COMMANDS[0], COMMANDS[40], "a new one")
    assert is_fine(COMMANDS[0], first)
    assert lost == Accepted("p41", "started")
    assert new is None
    (line, *_) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert "REINDEX record_by_command" in line
    with closing(sqlite3.connect(path)) as file:
        file.execute("REINDEX record_by_command")
    caplog.clear()
    assert trio.run(looked_up, path, "a new one", COMMANDS[40]) == [None, Accepted("p41", "started")]
    assert not caplog.records


def test_the_records_are_gone_through_once_and_not_for_each_new_command(path: Path) -> None:
    seen: list[str] = []

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
            seen.append(sql)
            return super().execute(sql, parameters)  # type: ignore[arg-type]  # handed on

    async def look() -> None:
        journal = SqliteJournal(path, connect=partial(sqlite3.connect, factory=Watched))
        for number in range(20):
            assert await journal.answer("s", f"new {number}") is None
        await journal.close()

    trio.run(look)
    assert len([sql for sql in seen if sql.startswith("WITH RECURSIVE")]) == 1


@pytest.mark.long
def test_a_damaged_index_makes_no_command_run_twice(path: Path) -> None:
    path.unlink()

    def spec() -> SessionSpec:
        return SessionSpec(model=ScriptedModel(["fine"], repeat_last=True))

    async def say(times: int) -> list[str]:
        async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
            session = await supervisor.open("s", spec())
            for command in COMMANDS[:times]:
                await session.ask(f"say {command}", command=command)
            return [message.text for message in session.messages()]

    def run(times: int) -> list[str]:
        doing: Callable[[], Awaitable[list[str]]] = partial(say, times)
        return trio.run(doing)

    before = run(5)
    without(path, COMMANDS[2])
    assert run(5) == before

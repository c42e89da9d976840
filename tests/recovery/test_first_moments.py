"""A process that is killed while it makes its journal: the file is half written, or in SQLite's old journal mode."""

import subprocess
import sys
from pathlib import Path

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.journals import SqliteJournal
from agentrail.testing import ScriptedModel

pytestmark = pytest.mark.long

KILLED = """
import os, sqlite3, sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("CREATE TABLE half (written)")
connection.executemany("INSERT INTO half VALUES (?)", [("x" * 4000,)] * 100)
os._exit(0)
"""


async def test_a_journal_that_was_being_made_when_the_process_was_killed_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "agentrail.db"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=True)  # noqa: S603, ASYNC221 - our own program
    assert path.with_name("agentrail.db-journal").stat().st_size
    journal = SqliteJournal(path)
    assert await journal.sessions() == ()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.open("s", SessionSpec(model=ScriptedModel(["hello"])))
        assert (await session.ask("hi")).text == "hello"

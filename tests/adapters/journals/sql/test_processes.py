"""Several processes write one SQLite file, by clocks that differ, and some are killed: nothing is lost or doubled."""

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agentrail.adapters.journals.sql.sql_journal import SqlJournal
from agentrail.adapters.journals.sql.sqlite_dialect import WAIT, SqliteDialect
from agentrail.errors import SessionHeld
from agentrail.journals import Lease
from tests.adapters.journals.sql.one_of_several import LEASE_MS, SESSIONS
from tests.kit import run_of
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

PROCESSES = 3
ROUNDS = 100 if CAMPAIGN else 3
"""How often the processes are started; in each round, all but the first are killed."""

SECONDS = 1.0


class Writing:
    """A process of `one_of_several`, whose output goes to a file."""

    def __init__(self, path: Path, name: str, seed: int) -> None:
        self.name = name
        self._output = path.parent / f"{name}.{seed}.txt"
        self._file = self._output.open("w")
        command = [sys.executable, "-m", "tests.adapters.journals.sql.one_of_several", str(path), name, str(seed)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self._file)  # noqa: S603 - ours

    def wait_for(self, count: int) -> None:
        """Wait until so many appends are acknowledged."""
        while len(self._output.read_text().splitlines()) < count:
            assert self._process.poll() is None
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()
        self._file.close()

    def end(self) -> int:
        """Let the process end by itself; return how many of its appends and claims were refused."""
        self._process.communicate(timeout=30)
        assert self._process.returncode == 0
        self._file.close()
        word, count = self._output.read_text().splitlines()[-1].split()
        assert word == "refused"
        return int(count)

    def acknowledged(self) -> Iterator[tuple[str, int, str]]:
        """Yield session, number and text of each acknowledged record."""
        for line in self._output.read_text().splitlines(keepends=True):
            if line.endswith("\n") and not line.startswith("refused"):
                session_id, number, text = line.split()
                yield session_id, int(number), text


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as db:
        yield db


async def test_what_several_processes_write_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "agentrail.db"
    chance = random.Random(1)
    known: dict[tuple[str, int], str] = {}
    refused = 0
    for round_number in range(ROUNDS):
        processes = [Writing(path, f"process-{n}", PROCESSES * round_number + n) for n in range(PROCESSES)]
        for process in processes:
            process.wait_for(5)
        time.sleep(SECONDS * chance.random())  # noqa: ASYNC251 - nothing else runs here
        for process in processes[1:]:
            process.kill()
        refused += processes[0].end()
        for process in processes:
            for session_id, number, text in process.acknowledged():
                assert (session_id, number) not in known, "two were told that they had written the same record"
                known[session_id, number] = text
        journal = SqlJournal(SqliteDialect(path))
        texts: list[str] = []
        for session_id in (*SESSIONS, *[process.name for process in processes]):
            records = await journal.read(session_id, limit=100_000)
            assert [record.number for record in records] == list(range(1, len(records) + 1))
            for record in records:
                text = record.arrival.input.parts[0].text  # type: ignore[union-attr]  # they are prompts
                texts.append(text)
                assert known.get((session_id, record.number), text) == text
                known.setdefault((session_id, record.number), text)
            assert max((number for name, number in known if name == session_id), default=0) == len(records)
        assert len(texts) == len(set(texts)), "a record was written twice"
        await journal.close()
        with reading(path) as db:
            assert [*db.execute("PRAGMA integrity_check")] == [("ok",)]
    assert refused


async def test_who_holds_a_session_is_known_to_others_as_long_as_the_process_lives(tmp_path: Path) -> None:
    path = tmp_path / "agentrail.db"
    process = Writing(path, "process", 1)
    process.wait_for(1)
    journal = SqlJournal(SqliteDialect(path))
    with pytest.raises(SessionHeld) as error:
        await journal.claim("process", "another", Lease(0, LEASE_MS))
    assert error.value.args[:2] == ("process", "process")
    assert await journal.holders() == ("process",)
    process.kill()
    claim = await journal.claim("process", "another", Lease(0, LEASE_MS))
    assert claim.head
    assert await journal.append(claim, claim.head, run_of("process", claim.head + 1, 1)) == claim.head + 1
    await journal.close()


async def test_a_lease_lasts_as_long_as_one_of_two_processes_with_one_address_lives(tmp_path: Path) -> None:
    path = tmp_path / "agentrail.db"
    first = Writing(path, "process", 1)
    first.wait_for(1)
    second = Writing(path, "process", 2)
    second.wait_for(1)
    first.kill()
    journal = SqlJournal(SqliteDialect(path))
    with pytest.raises(SessionHeld):
        await journal.claim("process", "another", Lease(0, LEASE_MS))
    second.kill()
    await journal.claim("process", "another", Lease(0, LEASE_MS))
    await journal.close()


async def test_one_that_reads_for_long_keeps_nobody_from_writing_beside_one_that_begins(tmp_path: Path) -> None:
    path = tmp_path / "agentrail.db"
    first, second = SqlJournal(SqliteDialect(path)), SqlJournal(SqliteDialect(path))
    claim = await first.claim("s", "first")
    await first.append(claim, 0, run_of("s", 1, 1))
    with reading(path) as db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM record").fetchone()
        await first.append(claim, 1, run_of("s", 2, 1))
        begun = time.monotonic()
        await second.claim("t", "second")  # then its log is moved into the file
        await second.claim("t", "second")
        await first.append(claim, 2, run_of("s", 3, 1))
        await second.close()
        await first.append(claim, 3, run_of("s", 4, 1))
        assert time.monotonic() - begun < WAIT / 2
    await first.close()

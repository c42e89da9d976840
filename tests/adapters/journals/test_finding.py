"""Records are found along indexes, wherever reading begins."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event

import pytest
import trio
import trio.testing

from agentrail import Accepted, State
from agentrail.adapters.journals.sql.sqlite_tables import PAGE_SIZE
from agentrail.errors import BadRecord
from agentrail.journals import Record, Snapshot, SqliteJournal
from agentrail.testing.conformance.expected_errors import raised
from tests.adapters.journals.sick import Connection, connecting
from tests.kit import Setup, opened, prompted, run_of
from tests.patience import PATIENCE

STRIDE = 64
LENGTH = 3 * STRIDE + 10
EDGES = sorted({1, 2, LENGTH - 1, LENGTH, *(STRIDE * n + more for n in (1, 2, 3) for more in (-1, 0, 1, 2))})
SESSIONS = ("a", "b")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agentrail.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqliteJournal]:
    journal = SqliteJournal(path, sync="normal")
    yield journal
    await journal.close()


async def written(journal: SqliteJournal) -> dict[str, tuple[Record, ...]]:
    """Write two sessions through one another, a few records at a time, and return them."""
    chance = random.Random(1)
    claims = {name: await journal.claim(name, "test") for name in SESSIONS}
    heads = dict.fromkeys(SESSIONS, 0)
    while any(head < LENGTH for head in heads.values()):
        name = chance.choice(SESSIONS)
        count = min(chance.randint(0, 5), LENGTH - heads[name])
        heads[name] = await journal.append(claims[name], heads[name], run_of(name, heads[name] + 1, count))
    return {name: run_of(name, 1, LENGTH) for name in SESSIONS}


def change_number(path: Path, statement: str, number: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(statement, (number,))


@pytest.mark.long
async def test_any_run_of_records_is_found(journal: SqliteJournal) -> None:
    for name, records in (await written(journal)).items():
        for after in (0, *EDGES):
            for limit in (1, 2, STRIDE - 1, STRIDE, STRIDE + 1, LENGTH):
                assert await journal.read(name, after, limit) == records[after : after + limit]
        for seq in range(LENGTH + 2):
            assert await journal.record_of_seq(name, seq) == min(seq, LENGTH)


@pytest.mark.long
async def test_a_snapshot_is_kept_behind_any_record(journal: SqliteJournal) -> None:
    await written(journal)
    claim = await journal.claim("a", "test")
    for number in EDGES:
        snapshot = Snapshot("a", number, State("a", Setup(), "demo"))
        await journal.keep(claim, snapshot)
        assert (await journal.latest("a")).snapshot == snapshot


@pytest.mark.long
async def test_no_look_goes_through_all_records(path: Path) -> None:
    class Watched(Connection):
        seen: set[str]

        def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
            self.seen.add(sql)
            return super().execute(sql, parameters)

    Watched.seen = set()
    journal = SqliteJournal(path, sync="normal", connect=connecting(Watched))
    await written(journal)
    claim = await journal.claim("a", "test")
    await journal.append(claim, LENGTH, [prompted("a", LENGTH + 1, command="c")])
    await journal.keep(claim, Snapshot("a", 70, State("a", Setup(), "demo")))
    await journal.claim("new", "test")
    for look in (
        journal.read("a", 70, 10),
        journal.record_of_seq("a", 80),
        journal.answer("a", "c"),
        journal.latest("a"),
    ):
        await look
    await journal.close()
    looks = [sql for sql in Watched.seen if "from record" in sql and sql.startswith("select")]
    assert len(looks) >= 3
    with closing(sqlite3.connect(path)) as file:
        for sql in looks:
            plan = [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {sql}", ("a",) * sql.count("?"))]
            assert not [step for step in plan if step.startswith("SCAN record")], (sql, plan)


@pytest.mark.long
async def test_a_commit_writes_about_as_many_pages_as_its_records_fill(journal: SqliteJournal, path: Path) -> None:
    sessions, rounds = 50, 36  # fewer than after which the log is begun anew
    claims = [await journal.claim(f"s-{number:032}", "test") for number in range(sessions)]

    async def write(number: int, head: int) -> None:
        name = claims[number].session_id
        await journal.append(claims[number], head, [prompted(name, head + 1)])

    log = path.with_name(f"{path.name}-wal")
    before = log.stat().st_size
    for head in range(rounds):
        held, gate = Event(), Event()  # the writer is held until all have asked: one commit on any machine
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal._writing[0].do, partial(_waits, held, gate))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            assert await trio.to_thread.run_sync(held.wait, PATIENCE)
            for number in range(sessions):
                nursery.start_soon(write, number, head)
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
    pages = (log.stat().st_size - before) / PAGE_SIZE
    bodies = sum(len(record) for record in records_in(path)) / PAGE_SIZE
    assert pages < 6 * bodies


def _waits(held: Event, gate: Event, _: object) -> None:
    held.set()
    assert gate.wait(PATIENCE)


def records_in(path: Path) -> list[bytes]:
    with closing(sqlite3.connect(path)) as file:
        return [body for (body,) in file.execute("SELECT body FROM record")]


async def test_a_number_that_has_changed_is_an_error_or_no_snapshot(journal: SqliteJournal, path: Path) -> None:
    claim = await opened(journal, "a")
    await journal.append(claim, 3, [prompted("a", 4, command="c", answer=Accepted("p", "started"))])
    await journal.keep(claim, Snapshot("a", 2, State("a", Setup(), "demo")))
    await journal.close()
    for number in ("", b"\0", 99, -1, 1.5):
        change_number(path, "UPDATE snapshot SET number = ?", number)
        assert (await journal.latest("a")).snapshot is None
    for number in ("", 99, -1):
        change_number(path, "UPDATE record SET number = ? WHERE command IS NOT NULL", number)
        await raised(BadRecord, journal.read("a"))

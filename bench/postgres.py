"""`PostgresJournal` on a real server: `append` beside the bare statement, prompts beside SQLite, renewed leases.

Bare is the journal's own statement with rows that were made before, from one thread: what a journal could do that made
nothing. The server shares the cores with what asks it.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.journals.postgres.postgres_dialect import PostgresDialect, arrays_of
from agentrail.adapters.journals.postgres.postgres_writer import APPEND, MOVED_TYPES
from agentrail.adapters.journals.sql.sql_tables import BLOB, NEW_SESSION, RECORD
from agentrail.journals import Journal, Lease, PostgresJournal, SqliteJournal
from agentrail.testing import ScriptedModel
from bench.journal import record
from tests.adapters.journals.postgres.server import PostgresServer, folder_of_servers

SESSIONS = 200
SECONDS = 2.0
REPEATS = 3
LEASES = 25_000
OF_BARE = 0.6
OF_SQLITE = 0.7


def bare(url: str, number: int) -> float:
    """Return the records per second that the statement writes, with one record of each session."""
    db = PostgresDialect(url).connect()
    names = [f"bare-{number}-{session:03}".encode() for session in range(SESSIONS)]
    db.begin()
    epochs = db.draw_epochs(SESSIONS)
    rows = [(name, 0, epoch, 0, 0, 0, 0, b"", 0, 0, 0) for name, epoch in zip(names, epochs, strict=True)]
    db.insert(NEW_SESSION, rows)
    keys = [row[0] for row in db.run_among("select key from ~session where id {} order by id", names)]
    db.commit()
    body = b"." * 420
    began, head = time.perf_counter(), 0
    while time.perf_counter() < began + SECONDS:
        one, check = head + 1, b"c" * 16
        places = list(zip(keys, epochs, strict=True))
        sessions = [(key, epoch, epoch, head, one, one, check, None, 0, 0, 0) for key, epoch in places]
        records = [(key, one, epoch, one, None, 5, "", check, body) for key, epoch in places]
        values = (
            *arrays_of(MOVED_TYPES, sessions),
            *arrays_of(RECORD.types, records),
            *arrays_of(BLOB.types, ()),
        )
        assert len(db.run(APPEND, values)) == SESSIONS
        head += 1
    took = time.perf_counter() - began
    db.close()
    return SESSIONS * head / took


async def ours(url: str, number: int) -> float:
    """Return the records per second that sessions get acknowledged, each one record at a time."""
    journal = PostgresJournal(url)
    names = [f"ours-{number}-{session}" for session in range(SESSIONS)]
    claims = [await journal.claim(name, "bench") for name in names]
    done, end = 0, time.perf_counter() + SECONDS

    async def write(index: int) -> None:
        nonlocal done
        head = 0
        while time.perf_counter() < end:
            head = await journal.append(claims[index], head, (record(names[index], head + 1),))
            done += 1

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for index in range(SESSIONS):
            nursery.start_soon(write, index)
    took = time.perf_counter() - began
    await journal.close()
    return done / took


async def prompts(journal: Journal) -> float:
    """Return the prompts per second that a supervisor answers, with a model that needs no time."""
    done = 0
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel(["fine"], repeat_last=True))
        sessions = [await supervisor.spawn(spec) for _ in range(SESSIONS)]
        end = time.perf_counter() + SECONDS

        async def ask(index: int) -> None:
            nonlocal done
            while time.perf_counter() < end:
                await sessions[index].ask("go on")
                done += 1

        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for index in range(SESSIONS):
                nursery.start_soon(ask, index)
        took = time.perf_counter() - began
    return done / took


async def renewals(url: str) -> tuple[float, int]:
    """Return the milliseconds in which the leases of many sessions are renewed, and the bytes of the log for it."""
    journal = PostgresJournal(url)
    claims = []

    async def claim(number: int) -> None:
        claims.append(await journal.claim(f"held-{number}", "bench", Lease(0, 60_000)))

    async with trio.open_nursery() as nursery:
        for number in range(LEASES):
            nursery.start_soon(claim, number)
    times = list[float]()
    with psycopg.connect(url, autocommit=True) as db:
        before = db.execute("select pg_current_wal_insert_lsn()").fetchone()
        for _ in range(REPEATS):
            began = time.perf_counter()
            assert await journal.renew(claims, Lease(0, 60_000)) == ()
            times.append(1000 * (time.perf_counter() - began))
        row = db.execute("select (pg_current_wal_insert_lsn() - %s::pg_lsn)::bigint", before).fetchone()
    await journal.close()
    return statistics.median(times), 0 if row is None else int(row[0]) // REPEATS


def compared(name: str, left: Callable[[int], float], right: Callable[[int], float], least: float) -> bool:
    """Print both figures, measured in turns, and whether the first is *least* of the second."""
    pairs = [(left(number), right(number)) for number in range(REPEATS)]
    ratio = statistics.median(one / other for one, other in pairs)
    one, other = (statistics.median(pair[place] for pair in pairs) for place in (0, 1))
    print(f"{name}: {one:,.0f}/s against {other:,.0f}/s, {ratio:.2f} of it (at least {least})", flush=True)
    return ratio >= least


def main() -> int:
    """Start a server, and print the figures; return 1 if one is missed."""
    gc.freeze()  # what was imported is out of the collector's reach for all
    with folder_of_servers() as folder, tempfile.TemporaryDirectory() as own:
        server = PostgresServer(folder)
        server.make()
        server.start()
        try:
            url = server.url
            is_met = compared(
                f"append, {SESSIONS} sessions, against the bare statement",
                lambda number: trio.run(ours, url, number),
                lambda number: bare(url, number + 1),
                OF_BARE,
            )
            is_met &= compared(
                f"prompts, {SESSIONS} sessions, against SQLite",
                lambda _: trio.run(prompts, PostgresJournal(url)),
                lambda number: trio.run(prompts, SqliteJournal(Path(own) / f"{number}.db")),
                OF_SQLITE,
            )
            took, written = trio.run(renewals, url)
            print(f"renewing {LEASES:,} leases: {took:.0f} ms, {written:,} bytes of the log")
        finally:
            server.kill()
    return 0 if is_met else 1


if __name__ == "__main__":
    raise SystemExit(main())

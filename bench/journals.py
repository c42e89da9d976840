"""What a journal writes and takes: `SqliteJournal`, or `PostgresJournal`.

Bytes are those that SQLite writes to its log, and the time is that of all threads of this process; both are of records
as the two commits of a turn leave them. With PostgreSQL (`python -m bench.journals postgres`) it is the time that
passes, as the server shares the cores with what asks it; `bare` is one statement that fences and writes as many records
of the same size, which were made before.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.journals import Claim, Journal, PostgresJournal, Record, SqliteJournal
from agentrail.testing import ScriptedModel
from bench import postgres
from bench.journal import record
from tests.adapters.journals.postgres.server import PostgresServer, folder_of_servers

SESSIONS = 200
BEFORE = 20
"""Records that each session has before the figure is taken."""
REPEATS = 5
TURNS = 200
TEXT = "x" * 330
"""The text of a record's prompt: with it, a record has some 700 bytes, as those of a turn have."""
SECONDS = 2.0
LOG = 4 * 1024 * 1024


def of_a_turn(session_id: str, number: int) -> Record:
    """Return a record like those of a turn, which begins work with one and ends it with the next."""
    first = record(session_id, number)
    return first.but(effects=(TEXT,), at_work=number % 2 == 1)


def log_size(path: Path) -> int:
    """Return the bytes of SQLite's log."""
    return Path(f"{path}-wal").stat().st_size


async def write(journal: Journal, claim: Claim, heads: dict[str, int]) -> None:
    """Append one record to a session."""
    session_id = claim.session_id
    heads[session_id] += 1
    await journal.append(claim, heads[session_id] - 1, (of_a_turn(session_id, heads[session_id]),))


async def commits(sessions: int, count: int, *, together: bool) -> tuple[float, float]:
    """Return the bytes of the log and the microseconds of this process for each of *count* records."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agentrail.db"
        journal = SqliteJournal(path)
        claims = [await journal.claim(f"s-{number:032x}", "bench") for number in range(sessions)]
        heads = {claim.session_id: BEFORE for claim in claims}
        for claim in claims:
            await journal.append(claim, 0, [of_a_turn(claim.session_id, number + 1) for number in range(BEFORE)])
        await journal.close()
        await write(journal, claims[0], heads)
        size, began = log_size(path), time.process_time()
        for start in range(0, count, sessions if together else 1):
            if together:
                async with trio.open_nursery() as nursery:
                    for claim in claims:
                        nursery.start_soon(write, journal, claim, heads)
            else:
                await write(journal, claims[start % sessions], heads)
        took, written = time.process_time() - began, log_size(path) - size
        await journal.close()
        return written / count, 1e6 * took / count


async def turn() -> float:
    """Return the bytes of the log for a turn of a supervisor."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agentrail.db"
        journal = SqliteJournal(path)
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"], repeat_last=True)))
            await session.ask("go on")
            size = log_size(path)
            for _ in range(TURNS):
                await session.ask("go on")
            written = log_size(path) - size
        await journal.close()
        return written / TURNS


async def opening() -> float:
    """Return the milliseconds until the first claim of a journal that a crash has left with a large log."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agentrail.db"
        journal = SqliteJournal(path)
        claim, heads = await journal.claim("s", "bench"), {"s": 0}
        while log_size(path) < LOG:
            await write(journal, claim, heads)
        crash = Path(folder) / "crash"
        crash.mkdir()
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", crash / f"agentrail.db{end}")
        await journal.close()
        after = SqliteJournal(crash / "agentrail.db")
        began = time.perf_counter()
        await after.claim("s", "bench")
        took = time.perf_counter() - began
        await after.close()
        return 1000 * took


def show(name: str, value: float, must: float, unit: str) -> None:
    """Print a figure, and what it must be."""
    print(f"{name:>38}{value:>10,.0f}{must:>10,.0f} {unit}{'' if value <= must else '  MISSED'}", flush=True)


def on_sqlite() -> None:
    """Print the figures of SQLite."""
    for name, sessions, count, together, most_bytes, most_us in (
        ("one session", 1, 400, False, 7_000, 500),
        (f"{SESSIONS} sessions", SESSIONS, 400, False, 8_500, 500),
        (f"{SESSIONS} together", SESSIONS, 2_000, True, 1_600, 70),
    ):
        runs = [trio.run(partial(commits, sessions, count, together=together)) for _ in range(REPEATS)]
        for index, most, unit in ((0, most_bytes, "bytes a commit"), (1, most_us, "us of CPU an append")):
            show(name, statistics.median(run[index] for run in runs), most, unit)
    show("durable turn", statistics.median(trio.run(turn) for _ in range(REPEATS)), 9_500, "bytes")
    show("opening after a crash, log of 4 MB", statistics.median(trio.run(opening) for _ in range(REPEATS)), 40, "ms")


async def crowd(journal: Journal, number: int) -> float:
    """Return the microseconds of a record, of those that many sessions get acknowledged, each one at a time."""
    claims = [await journal.claim(f"ours-{number}-{session}", "bench") for session in range(SESSIONS)]
    heads = {claim.session_id: 0 for claim in claims}
    end = time.perf_counter() + SECONDS

    async def work(claim: Claim) -> None:
        while time.perf_counter() < end:
            heads[claim.session_id] += 1
            made = record(claim.session_id, heads[claim.session_id])
            await journal.append(claim, heads[claim.session_id] - 1, (made,))

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for claim in claims:
            nursery.start_soon(work, claim)
    took = time.perf_counter() - began
    await journal.close()
    return 1e6 * took / sum(heads.values())


def on_postgres() -> None:
    """Start a server, and print the figures of PostgreSQL."""
    with folder_of_servers() as folder:
        server = PostgresServer(folder)
        server.make()
        server.start()
        try:
            runs = list[tuple[float, float]]()
            for number in range(REPEATS):
                ours = trio.run(crowd, PostgresJournal(server.url), number)
                runs.append((ours, 1e6 / postgres.bare(server.url, number + 1)))
            ours, bare = (statistics.median(run[index] for run in runs) for index in range(2))
            show(f"PostgreSQL, {SESSIONS} together", ours, 300, "us an append")
            print(f"{bare / ours:.2f} of the bare statement ({bare:.0f} us), at least {postgres.OF_BARE}")
        finally:
            server.kill()


def main() -> None:
    """Measure, and print."""
    gc.collect()
    gc.freeze()  # what was imported is out of the collector's reach for both
    print(f"{'':>38}{'is':>10}{'must be':>10}", flush=True)
    if "postgres" in sys.argv:
        on_postgres()
    else:
        on_sqlite()


if __name__ == "__main__":
    main()

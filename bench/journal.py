"""Acknowledged events per second: our journal against bare sqlite3 with the same group commit, in the same run.

Bare is a table, a thread that commits what waits together, and tasks that wait for it. It is given what ours is given,
a record that was just made and is kept until it is answered, and writes the same bytes, which it need not make, as
durably: each commit is synced before its tasks go on. What was imported is out of the collector's reach for both.

It makes no other promise of ours: it has no claims, no rows of sessions, no checksums, and reads nothing back. All else
is as SQLite has it by default, for that is what one would use instead of ours. Its pages are of 4,096 bytes, not 1,024,
and its log is moved into the file within commits. Ours pays for its smaller pages here, 2 µs per record, and so writes
less to the disk when a session is alone. Bare pays for an index of all records, of which ours has one in 64.
"""

from __future__ import annotations

import gc
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import trio

from agentrail.adapters.journals.packing import pack
from agentrail.events import AgentStart, Envelope, PromptReceived, RequestStart
from agentrail.journals import Record, SqliteJournal
from agentrail.models import Text
from tests.kit import Arrival, PromptSent

SECONDS = 1.0
REPEATS = 9
FIGURE = 0.7
"""Of what bare sqlite3 does, with the most sessions."""
EVENTS = 3
BEFORE = 500
"""Records that each session has before the figure is taken."""
AT_ONCE = 100
"""Records that are written together before the figure is taken."""


def record(session_id: str, number: int) -> Record:
    """Return what a prompt to an idle session leaves: three events."""
    events = (PromptReceived("p1", "go on"), AgentStart("p1"), RequestStart("r1", "instant", 3, 1))
    envelopes = tuple(
        Envelope(session_id, EVENTS * (number - 1) + index, 0, 1_700_000_000_000, 1, 1, event)
        for index, event in enumerate(events, 1)
    )
    return Record(session_id, number, Arrival(PromptSent((Text("go on"),)), 1_700_000_000_000, 0.5), (), envelopes)


async def ours(sessions: int, before: int, seconds: float, folder: Path) -> float:
    """Return the events per second that *sessions* sessions get acknowledged, each one record at a time."""
    journal = SqliteJournal(folder / "ours.db")
    claims = [await journal.claim(f"session-{number}", "bench") for number in range(sessions)]
    for head in range(0, before, AT_ONCE):
        for number, claim in enumerate(claims):
            some = [record(f"session-{number}", head + index) for index in range(1, AT_ONCE + 1)]
            await journal.append(claim, head, some)
    done = 0
    end = time.perf_counter() + seconds

    async def write(number: int) -> None:
        nonlocal done
        head = before
        while time.perf_counter() < end:
            head = await journal.append(claims[number], head, (record(f"session-{number}", head + 1),))
            done += 1

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for number in range(sessions):
            nursery.start_soon(write, number)
    spent = time.perf_counter() - began
    await journal.close()
    return done * EVENTS / spent


class Bare:
    """The same with nothing but sqlite3, a thread and a list."""

    def __init__(self, path: Path, rows: Iterable[tuple[str, int, bytes]]) -> None:
        self._path = path
        self._rows = rows
        self._waiting: list[tuple[trio.lowlevel.Task, tuple[str, int, bytes]]] = []
        self._wake = threading.Condition()
        self._ended = False
        self._ready = threading.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._ready.wait()

    async def append(self, given: Record, body: bytes) -> None:
        with self._wake:
            self._waiting.append((trio.lowlevel.current_task(), (given.session_id, given.number, body)))
            self._wake.notify()
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)

    def close(self) -> None:
        with self._wake:
            self._ended = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE record (session TEXT, number INTEGER, body BLOB, UNIQUE (session, number))")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO record VALUES (?, ?, ?)", self._rows)
        connection.execute("COMMIT")
        self._ready.set()
        while True:
            with self._wake:
                while not self._waiting and not self._ended:
                    self._wake.wait()
                batch, self._waiting = self._waiting, []
            if not batch:
                connection.close()
                return
            connection.execute("BEGIN")
            for _, row in batch:
                connection.execute("INSERT INTO record VALUES (?, ?, ?)", row)
            connection.execute("COMMIT")
            self._token.run_sync_soon(_wake, [task for task, _ in batch])


def _wake(tasks: list[trio.lowlevel.Task]) -> None:
    for task in tasks:
        trio.lowlevel.reschedule(task)


async def bare(sessions: int, before: int, seconds: float, folder: Path) -> float:
    """Return the same on bare sqlite3."""
    body = pack(record("session-1", 1)).body
    rows = ((f"session-{number}", index, body) for index in range(1, before + 1) for number in range(sessions))
    journal = Bare(folder / "bare.db", rows)
    done = 0
    end = time.perf_counter() + seconds

    async def write(number: int) -> None:
        nonlocal done
        head = before
        while time.perf_counter() < end:
            head += 1
            await journal.append(record(f"session-{number}", head), body)
            done += 1

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for number in range(sessions):
            nursery.start_soon(write, number)
    spent = time.perf_counter() - began
    journal.close()
    return done * EVENTS / spent


def events_per_second(sessions: int, before: int) -> tuple[float, float, float]:
    """Return the medians of ours and of bare, taken by turns, and that of their ratios."""
    pairs: list[tuple[float, float]] = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as folder:
            runs = (partial(run, sessions, before, SECONDS, Path(folder)) for run in (ours, bare))
            mine, other = (trio.run(run) for run in runs)
            pairs.append((mine, other))
    median = statistics.median
    return median(one for one, _ in pairs), median(two for _, two in pairs), median(one / two for one, two in pairs)


def main() -> int:
    """Print the figures, and say whether the last one is missed."""
    gc.collect()
    gc.freeze()
    ratio = 0.0
    print(f"{'sessions':>10}{'records before':>16}{'events/s':>12}{'bare':>12}{'/ bare':>8}")
    for sessions, before in ((1, 0), (16, 0), (200, 0), (200, BEFORE)):
        mine, other, ratio = events_per_second(sessions, before)
        print(f"{sessions:>10}{before:>16}{mine:>12,.0f}{other:>12,.0f}{ratio:>8.2f}", flush=True)
    print(f"at the last one at least {FIGURE}{'' if ratio >= FIGURE else ': MISSED'}")
    return int(ratio < FIGURE)


if __name__ == "__main__":
    sys.exit(main())

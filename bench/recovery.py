"""How long coming back takes, and how little a session needs that sleeps.

`python -m bench.recovery [SESSIONS]`. The baseline of coming back is the same number of records, read from
the same file and decoded, without the steps being done again.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import trio

from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.journals import SqliteJournal
from agentrail.runtime.handle import wake
from bench.load import percentile
from bench.rig import InstantModel

INPUTS = 1_000
LIVES = 200
"""Enough for a p99 that is not just the slowest, which is the first: it makes what reads the records."""

BATCH = 100
WOKEN = 1_000
LARGE = 40_000_000
"""Characters of a large session."""

PROMPT = 100_000
TICK = 0.001


def journal_in(folder: Path) -> SqliteJournal:
    """Return a journal that is as fast as a disk allows that may lose the last commits in a power cut."""
    return SqliteJournal(folder / "agentrail.db", sync="normal")


async def come_back(folder: Path) -> tuple[list[float], list[float]]:
    """Return seconds: of each `resume` of a session with `INPUTS` inputs, and of reading what it has to read."""
    spec = SessionSpec(model=InstantModel())
    async with open_supervisor(journal=journal_in(folder)) as supervisor:
        session = await supervisor.spawn(spec, "long")
        for _ in range(INPUTS // 2):  # each turn is two inputs: the prompt, and the response
            await session.ask("go on")
    resumed: list[float] = []
    read: list[float] = []
    for life in range(LIVES):
        journal = journal_in(folder)
        async with open_supervisor(journal=journal) as supervisor:
            await supervisor.spawn(spec, f"other-{life}")  # the journal is open, for writing too
            gc.collect()
            began = time.perf_counter()
            await supervisor.resume("long", spec)
            resumed.append(time.perf_counter() - began)
            began = time.perf_counter()
            await journal.latest("long", None, INPUTS)
            read.append(time.perf_counter() - began)
    return resumed, read


async def sleepers(folder: Path, sessions: int) -> tuple[float, list[float]]:
    """Return the bytes that each of so many sessions takes asleep, and the seconds of waking some of them."""
    spec = SessionSpec(model=InstantModel(), hibernate_after=1.0)
    async with open_supervisor(journal=journal_in(folder)) as supervisor:
        await (await supervisor.spawn(spec, "warm")).ask("hi")
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        handles = await _spawned(supervisor, spec, sessions)
        while not all(child.state == "asleep" for child in supervisor.tree().children):  # noqa: ASYNC110 - no event
            await trio.sleep(0.5)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        woken: list[float] = []
        for handle in handles[:: max(1, sessions // WOKEN)]:
            began = time.perf_counter()
            await wake(handle)
            woken.append(time.perf_counter() - began)
    return (after - before) / sessions, woken


async def longest_stop(folder: Path) -> float:
    """Return the most milliseconds for which other tasks are stopped while a large session falls asleep."""
    spec = SessionSpec(model=InstantModel(), hibernate_after=1.0)
    stops: list[float] = []
    async with open_supervisor(journal=journal_in(folder)) as supervisor:
        session = await supervisor.spawn(spec, "large")
        for number in range(LARGE // PROMPT):
            await session.ask(f"{number} and so on, ".ljust(PROMPT, "."))
        while supervisor.tree().children[0].state != "asleep":
            began = time.perf_counter()
            await trio.sleep(TICK)
            stops.append(time.perf_counter() - began - TICK)
    return max(stops) * 1000


async def _spawned(supervisor: Supervisor, spec: SessionSpec, sessions: int) -> list[SessionHandle]:
    """Start *sessions* sessions, each with a turn behind it."""
    handles: list[SessionHandle] = []

    async def one(number: int) -> None:
        handle = await supervisor.spawn(spec, f"s-{number}")
        await handle.ask("hello there")
        handles.append(handle)

    for first in range(0, sessions, BATCH):
        async with trio.open_nursery() as nursery:
            for number in range(first, min(sessions, first + BATCH)):
                nursery.start_soon(one, number)
    return handles


def main() -> int:
    """Print the figures, and say whether one is missed."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        resumed, read = trio.run(come_back, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        each, woken = trio.run(sleepers, Path(folder), sessions)
    with tempfile.TemporaryDirectory() as folder:
        stopped = trio.run(longest_stop, Path(folder))
    rows = (
        (f"a session with {INPUTS:,} inputs is back, p99, ms", percentile(resumed, 0.99), 10.0),
        ("a session that sleeps, bytes", each, 3 * 1024.0),
        ("a session is awake, p99, ms", percentile(woken, 0.99), 10.0),
        ("others stop as one of 40 MB falls asleep, ms", stopped, 50.0),
    )
    print(
        f"reading what has to be read alone: median {percentile(read, 0.5):.1f} ms, p99 {percentile(read, 0.99):.1f} ms"
    )
    print(f"back: median {percentile(resumed, 0.5):.1f} ms; the first of the process: {resumed[0] * 1000:.1f} ms")
    print(f"awake: median {percentile(woken, 0.5):.2f} ms")
    missed = False
    for name, found, figure in rows:
        missed |= found > figure
        print(f"{name:48}{found:>10.1f}{figure:>10.1f}{'  MISSED' if found > figure else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

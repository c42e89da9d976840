"""Print what many living sessions cost: bytes and objects of each, and how long the garbage collector holds them up.

`AGENTRAIL_BENCH=small` takes fewer sessions. Exits with 1 if a figure is over its limit.
"""

from __future__ import annotations

import gc
import linecache
import os
import sys
import time
import tracemalloc
from collections.abc import Mapping
from functools import partial
from typing import Final, Self

import trio
import trio.testing

from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.journals import Journal, MemoryJournal
from agentrail.runtime.shared.collector import fewer_full_collections
from bench.rig import Forgetful, InstantModel

TURNS: Final = 5
"""Turns of each session: ten messages of about 200 characters."""

LIMITS: Final[Mapping[str, float]] = {
    "spawned, bytes": 8_000,
    "ten messages, bytes outside of the journal": 12_000,
    "ten messages, bytes": 18_000,
    "asleep, bytes outside of the journal": 4_000,
    "longest pause of the collector, ms": 50,
    "woken, p99 in ms": 10,
}
"""What each may be."""


class Pauses:
    """Measures the longest collection while it listens: its time on the processor, as others may run there too."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = 0.0

    def __enter__(self) -> Self:
        gc.callbacks.append(self._heard)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._heard)

    def _heard(self, phase: str, _: Mapping[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.longest = max(self.longest, time.thread_time() - self._began)


async def _talk(supervisor: Supervisor, spec: SessionSpec, turns: int) -> SessionHandle:
    session = await supervisor.spawn(spec)
    for turn in range(turns):
        await session.ask(f"{session.id:>100}{turn:>100}")
    return session


async def _talks(supervisor: Supervisor, spec: SessionSpec, sessions: int, turns: int, *, asleep: bool) -> None:
    for _ in range(sessions):
        session = await _talk(supervisor, spec, turns)
        while asleep and not session._session.is_asleep:  # noqa: ASYNC110, SLF001 - no event says so
            await trio.sleep(0.1)


async def _at_rest(supervisor: Supervisor, *, asleep: bool) -> None:
    """Wait until every session is asleep, or idle."""
    for session in supervisor.sessions():
        while asleep and not session._session.is_asleep:  # noqa: ASYNC110, SLF001 - no event says so
            await trio.sleep(0.1)


def size(sessions: int, turns: int, journal: Journal | None = None, *, asleep: bool = False) -> float:
    """Return the bytes of one of so many sessions.

    Each falls asleep before the next one starts, in virtual time. Else, more of them would be awake at once on a busy
    machine, and tables of the process that have grown for them stay large.
    """
    clock = trio.testing.MockClock(autojump_threshold=0) if asleep else None
    return trio.run(partial(_sizes, sessions, turns, journal, asleep=asleep), clock=clock)


async def _sizes(sessions: int, turns: int, journal: Journal | None, *, asleep: bool) -> float:
    spec = SessionSpec(model=InstantModel(chunks=25), hibernate_after=0.1 if asleep else None)
    async with open_supervisor(journal=journal) as supervisor:
        await _talks(supervisor, spec, 10, turns, asleep=asleep)
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        await _talks(supervisor, spec, sessions, turns, asleep=asleep)
        await _at_rest(supervisor, asleep=asleep)
        gc.collect()
        linecache.clearcache()  # on a busy machine the watchdog has read source for its log
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return (after - before) / sessions


async def _held_up(sessions: int) -> float:
    """Return the milliseconds of the longest collection while so many sessions start and have their turns."""
    spec = SessionSpec(model=InstantModel(chunks=25))
    async with open_supervisor() as supervisor:
        with fewer_full_collections(), Pauses() as pauses:
            for _ in range(sessions):
                await _talk(supervisor, spec, TURNS)
            for session in supervisor.sessions():
                await session.ask("go on")
            gc.collect()
    return pauses.longest * 1000


async def _woken(sessions: int, wanted: int) -> float:
    """Return the 99th percentile of the milliseconds that one of so many sleeping sessions takes to answer."""
    spec = SessionSpec(model=InstantModel(chunks=1), hibernate_after=0.1)
    taken: list[float] = []
    async with open_supervisor() as supervisor:
        for _ in range(sessions):
            await _talk(supervisor, spec, 0)
        await _at_rest(supervisor, asleep=True)
        for session in supervisor.sessions()[:wanted]:
            began = time.perf_counter()
            await session.ask("wake up")
            taken.append((time.perf_counter() - began) * 1000)
    return sorted(taken)[int(len(taken) * 0.99)]


def measured(sessions: int, many: int) -> dict[str, float]:
    """Return every figure: sizes of *sessions*, which are exact, and pauses among *many*."""
    found = (
        size(sessions, 0, MemoryJournal(keep=1)),
        size(sessions, TURNS, MemoryJournal(keep=1)),
        size(sessions, TURNS),
        size(sessions, 0, Forgetful(), asleep=True),
        trio.run(_held_up, many),
        trio.run(_woken, 10 * many, min(many, 1000)),
    )
    return dict(zip(LIMITS, found, strict=True))


def main() -> int:
    """Print the table, and say whether a limit is missed."""
    full = os.environ.get("AGENTRAIL_BENCH", "full") == "full"
    missed = False
    for name, found in (measured(500, 10_000) if full else measured(50, 100)).items():
        missed |= found > LIMITS[name]
        mark = "  MISSED" if found > LIMITS[name] else ""
        print(f"{name:46}{found:>10,.1f}{LIMITS[name]:>10,.0f}{mark}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

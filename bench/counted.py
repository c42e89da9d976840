"""The program that `instructions` counts: each job runs alone, between two marks that callgrind can see.

Whatever differs between two runs of the same code is taken out: time goes on by a fixed step each time it is asked for,
Trio takes the tasks of a pass in the same order, and the collector rests while rounds are counted.
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

if __name__ == "__main__":
    gc.disable()  # under valgrind, imports take half of the time
    time.perf_counter = itertools.count(0.0, 1e-5).__next__  # before Trio binds it

import trio
from trio._core import _run

from agentrail import SessionSpec, open_supervisor
from agentrail.events import AgentAbort, ToolExecutionStart
from agentrail.journals import Journal, SqliteJournal
from agentrail.plugins import Attachable
from bench.aborts import Caller, Park
from bench.rig import Attentive, InstantModel, Note, WrittenModel, idle_plugins, listen, listened_session

PLUGINS = 25
CROWD = 100

Job = Callable[[], Awaitable[None]]


class SameOrder(random.Random):
    """Has Trio's scheduler take the tasks of a pass in the order in which they became ready, each time."""

    def random(self) -> float:
        """Return a number for which the scheduler does not turn the order round."""
        return 0.75


def mark() -> None:
    """Have callgrind begin a new part."""
    os.getsid(0)


async def counted(rounds: int, job: Job) -> None:
    """Run so many *rounds* of *job* for what is made once, on first use, and then as many between two marks."""
    for _ in range(rounds):
        await job()
    gc.collect()
    gc.disable()
    mark()
    for _ in range(rounds):
        await job()
    mark()
    gc.enable()


async def _turns(
    rounds: int, *, calls: int = 0, chunks: int = 20, plugins: int = 0, attachables: Sequence[Attachable] = ()
) -> None:
    """Count turns of a session with so many idle *plugins*, or with *attachables*."""
    plugged = attachables or idle_plugins(plugins)
    async with listened_session(calls=calls, chunks=chunks, plugins=plugged) as session:

        async def turn() -> None:
            await session.ask("go on")

        await counted(rounds, turn)


async def _written_turns(rounds: int, *, chunks: int = 20, journal: Journal | None = None, before: int = 0) -> None:
    """Count turns of a model as a user writes it, after *before* others, with the default journal unless named."""
    async with listened_session(model=WrittenModel(chunks), journal=journal) as session:
        for _ in range(before):
            await session.ask("go on")

        async def turn() -> None:
            await session.ask("go on")

        await counted(rounds, turn)


async def _sqlite_turns(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = SqliteJournal(Path(folder) / "counted.db")
        await _written_turns(rounds, journal=journal)
        await journal.close()


async def _spawns(rounds: int) -> None:
    async with open_supervisor() as supervisor:
        names = (f"session-{number}" for number in itertools.count())

        async def spawn_and_stop() -> None:
            session = await supervisor.spawn(SessionSpec(model=InstantModel()), next(names))
            await session.stop()

        await counted(rounds, spawn_and_stop)


async def _spawns_of_one(rounds: int) -> None:
    """Count what `_spawns` counts, with one specification, which has a tool."""
    async with open_supervisor() as supervisor:
        names = (f"session-{number}" for number in itertools.count())
        spec = SessionSpec(model=InstantModel(), tools=[Note()])

        async def spawn_and_stop() -> None:
            session = await supervisor.spawn(spec, next(names))
            await session.stop()

        await counted(rounds, spawn_and_stop)


async def _aborts(rounds: int) -> None:
    """Count turns whose tool is aborted, until a subscriber knows."""
    async with open_supervisor() as supervisor:
        spec = SessionSpec(model=Caller(), tools=[Park()], repeat_pattern=1_000_000)
        session = await supervisor.spawn(spec, "aborted")
        async with session.subscribe() as events:

            async def turn() -> None:
                await session.prompt("go on")
                async for envelope in events:
                    if type(envelope.event) is ToolExecutionStart:
                        break
                await session.abort()
                async for envelope in events:
                    if type(envelope.event) is AgentAbort:
                        return

            await counted(rounds, turn)


async def _crowds(rounds: int) -> None:
    """Count a turn with a tool call of each of many sessions at once."""
    async with open_supervisor() as supervisor, trio.open_nursery() as nursery:
        note = Note()
        specs = (SessionSpec(model=InstantModel(calls=1), tools=[note], repeat_pattern=1_000_000) for _ in range(CROWD))
        sessions = [await supervisor.spawn(spec, f"session-{number}") for number, spec in enumerate(specs)]
        for session in sessions:
            await nursery.start(listen, session)

        async def turns() -> None:
            async with trio.open_nursery() as asking:
                for session in sessions:
                    asking.start_soon(session.ask, "go on")

        await counted(rounds, turns)
        nursery.cancel_scope.cancel()


JOBS: dict[str, tuple[int, Callable[[int], Awaitable[None]]]] = {
    "turn": (10, _turns),
    "300 turns": (300, _turns),
    "written turn": (10, _written_turns),
    "written, after 2,500 turns": (50, lambda rounds: _written_turns(rounds, before=2_500)),
    "written, 220 chunks": (5, lambda rounds: _written_turns(rounds, chunks=220)),
    "written, SQLite": (10, _sqlite_turns),
    "1 call": (10, lambda rounds: _turns(rounds, calls=1)),
    "8 calls": (5, lambda rounds: _turns(rounds, calls=8)),
    "64 calls": (2, lambda rounds: _turns(rounds, calls=64)),
    "220 chunks": (5, lambda rounds: _turns(rounds, chunks=220)),
    "1 plugin": (10, lambda rounds: _turns(rounds, plugins=1)),
    "25 plugins": (5, lambda rounds: _turns(rounds, plugins=PLUGINS)),
    "attentive plugin": (10, lambda rounds: _turns(rounds, attachables=[Attentive()])),
    "spawn and stop": (10, _spawns),
    "spawn and stop, one specification": (10, _spawns_of_one),
    "abort": (10, _aborts),
    "crowd": (2, _crowds),
}
"""What is counted, in order: how many rounds, and a round of what."""

LONG = frozenset({"300 turns", "written, after 2,500 turns", "crowd"})
"""The jobs that take longest under valgrind."""


async def main() -> None:
    """Run the jobs that are named to the program, or every one."""
    for name in sys.argv[1:] or JOBS:
        rounds, job = JOBS[name]
        await job(rounds)


if __name__ == "__main__":
    sys.setswitchinterval(1000.0)  # no other thread takes the interpreter away from the loop
    _run._r = SameOrder()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    trio.run(main)
    sys.stdout.write("done\n")

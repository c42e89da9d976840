"""Print what each built-in plugin, and all together, add to a turn with one tool call: CPU and bytes of records.

CPU is in bare tool rounds: what a call of a tool adds to a turn of a session without plugins, in the same run. All of
it counts, also what comes once in many turns: old records are dropped, and snapshots are kept. Plugins
that may ask for something are measured with nothing to be judged, and with a question in each turn. New plugins are
taken from the list of public names. Exits with 1 if a figure is missed.
"""

from __future__ import annotations

import gc
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final, NamedTuple

import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.adapters.journals.packing import pack
from agentrail.events import AskStarted
from agentrail.journals import MemoryJournal
from agentrail.models import EmitChunk, Model, ModelRequest, Response, Text
from agentrail.plugins import AnyPlugin, Attachable, Reflection, SelfVerify
from agentrail.runtime.shared.collector import fewer_full_collections
from agentrail.tools import tool
from bench.rig import InstantModel, Note, listen
from tests.plugins.built_in import asks, made, shipped

SLICES: Final = 40
SLICE: Final = 10
"""How often each session is measured, by turns with the others, and the turns of each time; figures are of the sum."""
WARM: Final = 250
"""Turns of each session before: the journals in memory are as full as they become."""
REPEATS: Final = 9
"""Runs, in new sessions, of which a figure that has a limit is the median: one run differs from the next by 0.05."""
SMALL: Final = 4
"""The part of the slices that is measured with `AGENTRAIL_BENCH=small`."""

MOST_ROUNDS: Final = 1.0
"""The most that all plugins which ask nobody add to a turn with one call, in bare tool rounds."""
MOST_BYTES: Final = 1_000.0
"""The most bytes that they add to the records of the turn."""
MOST_ROUNDS_A_QUESTION: Final = 1.0
"""The most that a question adds, in bare tool rounds."""

ASKING: Final[Mapping[str, Callable[[], AnyPlugin]]] = {
    "SelfVerify": lambda: SelfVerify("check"),
    "Reflection": lambda: Reflection(reviewer="model", model="reviewer"),
}
"""Plugins with options with which they ask once in each turn, by their names."""


class Cost(NamedTuple):
    """What plugins add to a turn with one call."""

    rounds: float
    """CPU, in bare tool rounds."""
    more_bytes: float
    """Bytes of records."""
    questions: float
    """Questions (`Ask`)."""


@tool
async def check() -> str:  # noqa: ASYNC124 - it does nothing
    """Check the work."""
    return "fine"


class Reviewer:
    """Passes each answer that it is asked about."""

    name = "scripted:reviewer"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer at once."""
        return Response((Text('{"passed": true, "problems": []}'),))


def reviewer(_: str) -> Model:
    """Return the model called `reviewer`."""
    return Reviewer()


def spec_of(plugins: Sequence[Attachable], calls: int) -> SessionSpec:
    """Return the specification of a session with a model that makes so many calls in each turn."""
    return SessionSpec(
        model=InstantModel(calls),
        tools=[Note(), check],
        plugins=plugins,
        repeat_pattern=1_000_000,
        context_window=100_000_000,  # nothing is compacted, which would be measured too
    )


async def _rounds(plugins: Sequence[Attachable], slices: int) -> float:
    """Measure three sessions in turn, a few turns each: without a call, with one, and with one and *plugins*.

    Each has a journal of its own, and begins when the journal has put records away: later turns cost no more.
    """
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        sessions: list[SessionHandle] = []
        for row, calls in (((), 0), ((), 1), (plugins, 1)):
            supervisor = await stack.enter_async_context(open_supervisor(models={"reviewer": reviewer}))
            sessions.append(await supervisor.spawn(spec_of(row, calls), "measured"))
            await nursery.start(listen, sessions[-1])
            await _turns(sessions[-1], WARM)
        spent = [[await _turns(session, SLICE) for session in sessions] for _ in range(slices)]
        nursery.cancel_scope.cancel()
    columns: list[tuple[float, ...]] = list(zip(*spent, strict=True))
    without, one, hooked = map(sum, columns)
    return (hooked - one) / (one - without)


async def _turns(session: SessionHandle, turns: int) -> float:
    """Return the seconds of CPU of so many turns."""
    began = time.process_time()
    for _ in range(turns):
        await session.ask("go on")
    return time.process_time() - began


def rounds_of(plugins: Sequence[Attachable], slices: int, repeats: int = 1) -> float:
    """Return the CPU that *plugins* add to a turn with one call, in bare tool rounds: the median of so many runs."""
    found: list[float] = []
    for _ in range(repeats):
        gc.collect()
        found.append(trio.run(_rounds, plugins, slices))
    return statistics.median(found)


async def written(plugins: Sequence[Attachable], turns: int) -> tuple[float, float]:
    """Return the bytes of records, and the questions, of one turn with one call."""
    journal = MemoryJournal()
    async with open_supervisor(journal=journal, models={"reviewer": reviewer}) as supervisor:
        session = await supervisor.spawn(spec_of(plugins, 1), "written")
        for _ in range(2):  # what is said once in a session is none of a turn's
            await session.ask("go on")
        first = session.inspect().last_seq
        before = len(await journal.read("written", 0, 1_000_000))
        for _ in range(turns):
            await session.ask("go on")
        records = (await journal.read("written", 0, 1_000_000))[before:]
    events = [envelope.event for record in records for envelope in record.events if envelope.seq > first]
    asked = sum(isinstance(event, AskStarted) for event in events)
    return sum(len(pack(record).body) for record in records) / turns, asked / turns


def cost_of(plugins: Sequence[Attachable], slices: int, repeats: int = 1) -> Cost:
    """Return what *plugins* add to a turn with one call."""
    size, questions = trio.run(written, plugins, 10)
    bare, _ = trio.run(written, (), 10)
    return Cost(rounds_of(plugins, slices, repeats), size - bare, questions)


def print_row(name: str, cost: Cost, missed: str = "") -> None:
    """Print the *cost* of what is called *name*."""
    print(f"{name:30}{cost.rounds:>10.2f}{cost.more_bytes:>10.0f}{cost.questions:>10.1f}{missed}")


def main() -> int:
    """Measure each plugin and all together, print the table, and return whether a figure is missed."""
    full = os.environ.get("AGENTRAIL_BENCH", "full") == "full"
    slices = SLICES if full else SLICES // SMALL
    logging.getLogger("agentrail").setLevel(logging.ERROR)  # else a plugin that warns would be measured with its line
    gc.collect()
    gc.freeze()
    missed = False
    print(f"{'added to a turn with one call':30}{'rounds':>10}{'bytes':>10}{'asks':>10}")
    with fewer_full_collections():
        for cls in shipped():
            cost = cost_of((made(cls),), slices)
            missed |= cost.questions > 0
            print_row(cls.__name__, cost, "  MISSED: it asks, and nothing is to be judged" if cost.questions else "")
        silent = [made(cls) for cls in shipped() if not asks(cls)]
        cost = cost_of(silent, slices, REPEATS)
        over = cost.rounds > MOST_ROUNDS or cost.more_bytes > MOST_BYTES or cost.questions > 0
        missed |= over
        print_row(f"all that never ask (≤ {MOST_ROUNDS:.0f})", cost, "  MISSED" if over else "")
        for name, make in ASKING.items():
            cost = cost_of((make(),), slices, REPEATS)
            over = not cost.questions or cost.rounds > MOST_ROUNDS_A_QUESTION * cost.questions
            missed |= over
            most = f"(≤ {MOST_ROUNDS_A_QUESTION:.0f} a question)"
            print_row(f"{name} {most}", cost, "  MISSED" if over else "")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

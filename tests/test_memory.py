"""What a live idle session holds on to."""

from __future__ import annotations

import gc

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.journals import memory
from agentrail.runtime.diagnosis import watchdog
from tests.benchmarks import flat
from tests.benchmarks.living import sizes
from tests.benchmarks.rig import Forgetful, InstantModel
from tests.profiles import CAMPAIGN

SESSIONS = 150

ROOM = 1.05
"""How much more than was measured each may take."""

BYTES = {
    "spawned": (0, False, False, 3_610),
    "ten messages, outside of the journal": (5, False, False, 6_670),
    "ten messages, with the default journal": (5, True, False, 9_800),
    "asleep, outside of the journal": (0, False, True, 2_780),
}
"""Turns of a session, each of two messages of about 200 characters; whether records are kept; whether it sleeps; and
the bytes that it takes now."""


@pytest.mark.parametrize(("turns", "kept", "asleep", "now"), BYTES.values(), ids=BYTES)
def test_a_session_takes_few_bytes(
    turns: int, kept: bool, asleep: bool, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "SLOW", 3600.0)  # what it says on a busy machine is kept too, and is no session's
    monkeypatch.setattr(memory, "LOOSE", 0)  # with few sessions all records would be kept as they are
    journal = None if kept else Forgetful()
    found = trio.run(lambda: sizes(SESSIONS, turns, journal, asleep=asleep))
    assert 0.8 * now < found <= ROOM * now


MOST_TRACKED = {0: 48, 5: 60}
"""Objects of an idle session that the garbage collector looks at, after so many turns, with the default journal.

They are what a full collection takes its time for; 46 and 57 were seen.
"""


async def _tracked_per_session(turns: int) -> float:
    async with open_supervisor() as supervisor:
        model = InstantModel(chunks=25)

        async def talk() -> None:
            session = await supervisor.spawn(SessionSpec(model=model))
            for turn in range(turns):
                await session.ask(f"{turn:>200}")

        await talk()
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(SESSIONS):
            await talk()
        gc.collect()
        return (len(gc.get_objects()) - before) / SESSIONS


@pytest.mark.parametrize("turns", MOST_TRACKED)
def test_a_session_has_few_objects_that_the_collector_looks_at(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "SLOW", 3600.0)
    assert trio.run(_tracked_per_session, turns) <= MOST_TRACKED[turns]


TURNS = 100_000 if CAMPAIGN else 2_000


def test_memory_is_flat_while_sessions_come_and_go_and_requests_leave_cycles_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "SLOW", 3600.0)
    seen = trio.run(lambda: flat.run(1_000 if CAMPAIGN else 20, TURNS))
    assert flat.growth([each.blocks for each in seen]) <= flat.GROWTH
    assert max(each.cycles for each in seen) <= flat.MOST_CYCLES


def test_nothing_is_left_of_sessions_that_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "SLOW", 3600.0)
    seen = trio.run(lambda: flat.run(20, 2_000, looks=20, collected=True))
    assert flat.growth([each.blocks for each in seen]) <= 1.003

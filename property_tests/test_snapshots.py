"""A snapshot without what the records hold, completed from them, is the state that it was made of."""

import random

import pytest

from agentrail import State
from agentrail.codec.values import read, write
from agentrail.core.vocabulary.history_prefix import NO_STEM, Results, Stem, stem_after
from agentrail.journals import Record, Snapshot
from agentrail.ports import journal
from agentrail.ports.journal import grown, snapshot_of, stem_of
from agentrail.testing import Choose
from agentrail.testing.world.random_setups import draw_scene
from property_tests.volume import profile
from tests.machinery.worlds.checked_world import CheckedWorld

SESSIONS = {"ci": 40, "campaign": 3_000}
LENGTH = 40


def whole(snapshot: Snapshot, records: list[Record]) -> State:
    """Return the state of a snapshot with its history, of which *records* hold what it leaves out."""
    since = snapshot.number if snapshot.since is None else snapshot.since
    left_out = records[since : snapshot.number]
    return snapshot.state.but(history=grown(snapshot.state.history, left_out, Results()))


def test_random_sessions_have_whole_histories_at_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_KEPT", 0)
    begin = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    steps = kept = rearranged = 0
    for seed in range(begin, begin + SESSIONS[profile()]):
        choose = Choose(random.Random(seed).randrange)
        world = CheckedWorld(draw_scene(choose))
        stem, number = NO_STEM, 0
        opening: State | None = world.state
        records: list[Record] = []
        world.open()
        while len(world.records) > number:
            made, state = world.records[-1], world.state
            number = made.number
            record = Record(state.session_id, number, made.arrival, change=made.change, opening=opening)
            opening = None
            records.append(record)
            stem = stem_after(stem, number, record.change, state)
            snapshot = read(Snapshot, write(snapshot_of(state, number, stem)))
            assert whole(snapshot, records).history == state.history, (seed, number)
            if choose.percent(5):  # the session comes back, and goes on from the stem of its snapshot
                stem = stem_of(snapshot) if choose.percent(50) else stem_of(Snapshot(state.session_id, number, state))
            kept += len(snapshot.state.history)
            rearranged += stem != Stem(0, 0)
            steps += 1
            if steps % LENGTH:
                world.go(choose)
    assert steps > LENGTH * SESSIONS[profile()] // 2
    assert rearranged > steps // 100
    assert kept

"""What a step changed, written and read again, leads to the state that it made, down to its text."""

import random

import pytest

from agentrail.codec.json_text import from_text
from agentrail.codec.values import check_same, decode, write
from agentrail.core.audit import differences
from agentrail.core.vocabulary.changes import Change, fold
from agentrail.testing import Choose
from agentrail.testing.world.random_setups import draw_scene
from property_tests.begun_states import noted
from property_tests.volume import profile
from tests.machinery.worlds.checked_world import CheckedWorld

SESSIONS = {"ci": 40, "campaign": 5_000}
LENGTH = 40


@pytest.mark.long
def test_random_sessions_are_the_fold_of_what_is_written_and_an_audit_finds_nothing() -> None:
    begin = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    steps = 0
    for seed in range(begin, begin + SESSIONS[profile()]):
        choose = Choose(random.Random(seed).randrange)
        world = CheckedWorld(draw_scene(choose))
        folded, seen = world.state, 0
        world.open()
        while len(world.records) > seen:
            seen, record, before = len(world.records), world.records[-1], folded
            folded = fold(before, decode(Change, from_text(write(record.change))))
            assert differences(before, folded, record) == (), seed
            check_same(world.state, noted(folded, world.state))
            steps += 1
            if steps % LENGTH:
                world.go(choose)
    assert steps > LENGTH * SESSIONS[profile()] // 2

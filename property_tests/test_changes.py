"""What a step changed, written and read again, leads to the state that it made, down to its text."""

import random

import pytest

from agentrail.codec.json_text import from_text
from agentrail.codec.values import check_same, decode, write
from agentrail.core.audit import differences
from agentrail.core.vocabulary.changes import Change, fold
from agentrail.testing import Choose
from agentrail.testing.world.random_setups import draw_scene
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
        folded = live = world.state
        world.open()
        while world.state is not live:
            record = world.records[-1]
            assert differences(live, world.state, record) == (), seed
            live = world.state
            folded = fold(folded, decode(Change, from_text(write(record.change))))
            check_same(world.state, folded)
            steps += 1
            if steps % LENGTH:
                world.go(choose)
    assert steps > LENGTH * SESSIONS[profile()] // 2

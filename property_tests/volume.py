"""Many sessions in the plausible world, driven by seeded chance: made once, looked at by several tests."""

from __future__ import annotations

import os
import random
from functools import cache

from agentrail.testing.world.choose import Choose
from agentrail.testing.world.plausible import Tally, play
from agentrail.testing.world.scenes import draw_scene
from property_tests.narrow import narrow_paths

STEPS = {"ci": 360_000, "campaign": 2_000_000}
"""The least that is asked for is 50,000 in CI and 1,000,000 in the campaign; promises seldom kept need more."""

LENGTH = 75
"""Steps of one session, at most."""


def profile() -> str:
    return os.environ.get("AGENTRAIL_PROFILE", "ci")


def run_one(seed: int, tally: Tally | None = None, steps: int = LENGTH) -> None:
    """Run the session of one seed, and say which it was if it breaks."""
    chance = random.Random(seed)
    choose = Choose(chance.randrange)
    try:
        play(choose, draw_scene(choose), steps, tally=tally, seek=tally is not None)
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise


@cache
def volume() -> Tally:
    """Run sessions until there are steps enough; each seeks what the ones before it have not seen."""
    tally = Tally()
    narrow_paths(tally)
    seed = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    while tally.steps < STEPS[profile()]:
        run_one(seed, tally)
        seed += 1
    return tally

"""Plays many random sessions of the pure machine, from seeds: they are played once, and several tests use the tally."""

from __future__ import annotations

import os
import random
from functools import cache

from agentrail.testing import Choose
from agentrail.testing.world.random_setups import draw_scene
from property_tests.narrow import narrow_paths
from tests.machinery.worlds.checked_world import checked_play
from tests.machinery.worlds.table_tally import Tally

STEPS = {"ci": 50_000, "campaign": 2_000_000}
"""The fewest steps, by profile. The specification asks for 50,000 and 1,000,000."""

AT_MOST = {"ci": 1, "campaign": 2}
"""How many times as many are made while a row of the transition table is seldom reached, or has not done all that it
allows."""

LENGTH = 75
"""How many steps one session has at most."""


def profile() -> str:
    return os.environ.get("AGENTRAIL_PROFILE", "ci")


def run_one(seed: int, tally: Tally | None = None, steps: int = LENGTH) -> None:
    """Play the session of one seed; an exception gets a note with the seed."""
    chance = random.Random(seed)
    choose = Choose(chance.randrange)
    try:
        checked_play(choose, draw_scene(choose), steps, tally=tally, seek=tally is not None)
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise


@cache
def volume() -> Tally:
    """Play sessions until the profile's number of steps is reached; they prefer rows that were seldom reached.

    If there are such rows still, the campaign plays as many again for them.
    """
    tally = Tally()
    narrow_paths(tally)
    seed = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    least = STEPS[profile()]
    while tally.steps < least or (tally.steps < AT_MOST[profile()] * least and (tally.seldom() or tally.broken())):
        run_one(seed, tally)
        seed += 1
    return tally

"""Tests of the tests: bugs that are planted on purpose are found; CI plants each again with the seed that found it."""

import random

import pytest

from property_tests.planted.finding import BUGS, FINDERS, MOST_SEEDS, broken_rule, planted, search
from property_tests.planted.seeds import SEEDS
from property_tests.volume import profile

LEAST = 30
"""Bugs that there are at least."""

CLEAN = {"ci": 8, "campaign": 5 * MOST_SEEDS}
"""Runs without a bug of each finder."""


def test_there_are_bugs_of_many_kinds_each_with_its_seed() -> None:
    assert len(BUGS) >= LEAST
    assert list(SEEDS) == list(BUGS)
    assert all(0 <= seed < MOST_SEEDS for seed, _ in SEEDS.values())
    assert all(bug.finder in FINDERS and bug.says for bug in BUGS.values())
    assert sum(bug.chosen == "reader" for bug in BUGS.values()) >= len(BUGS) / 2


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    """The stored seed is the quickest; whatever changes what happens in a run may leave the bug to another one."""
    seed, _ = SEEDS[name]
    start = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    seeds = ([seed] if profile() == "ci" else []) + list(range(start, start + MOST_SEEDS))
    assert search(BUGS[name], seeds) is not None, f"not found from seed {start} on"


@pytest.mark.parametrize("finder", FINDERS)
def test_without_a_bug_nothing_is_found(finder: str) -> None:
    seeds = {seed for name, (seed, _) in SEEDS.items() if BUGS[name].finder == finder}
    for seed in sorted(seeds | set(range(CLEAN[profile()]))):
        assert broken_rule(finder, seed) is None, f"seed {seed}"


def test_what_was_planted_is_gone_afterwards() -> None:
    for bug in BUGS.values():
        with planted(bug):
            pass
    assert broken_rule("safety", 0) is None

"""Tests of the tests: bugs that are planted on purpose are found; the campaign plants each again."""

import random
from pathlib import Path

import pytest

from property_tests.planted.bugs import FILES, Found, store
from property_tests.planted.finding import BUGS, FINDERS, MOST_SEEDS, broken_rule, planted, search
from property_tests.volume import profile

LEAST = 30
"""Bugs that there are at least."""

CLEAN = {"ci": 8, "campaign": 5 * MOST_SEEDS}
"""Runs without a bug of each finder."""


def test_there_are_bugs_of_many_kinds_each_with_its_seed() -> None:
    assert len(BUGS) >= LEAST
    assert all(bug.found is not None and bug.finder in FINDERS for bug in BUGS.values())
    assert sum(bug.is_readers for bug in BUGS.values()) >= len(BUGS) / 2


@pytest.mark.parametrize("words", BUGS)
def test_a_planted_bug_is_found(words: str) -> None:
    """The stored seed is the quickest; whatever changes what happens in a run may leave the bug to another one."""
    bug = BUGS[words]
    start = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    seeds = ([bug.found.seed] if bug.found and profile() == "ci" else []) + list(range(start, start + MOST_SEEDS))
    assert search(bug, seeds) is not None, f"not found from seed {start} on"


@pytest.mark.parametrize("finder", FINDERS)
def test_without_a_bug_nothing_is_found(finder: str) -> None:
    seeds = {bug.found.seed for bug in BUGS.values() if bug.found and bug.finder == finder}
    for seed in sorted(seeds | set(range(CLEAN[profile()]))):
        assert broken_rule(finder, seed) is None, f"seed {seed}"


def test_what_was_planted_is_gone_afterwards() -> None:
    for bug in BUGS.values():
        with planted(bug):
            pass
    assert broken_rule("safety", 0) is None


def test_the_seed_that_found_a_bug_is_written_below_its_edits(tmp_path: Path) -> None:
    copy = tmp_path / FILES[0].name
    copy.write_text(FILES[0].read_text("utf-8"), encoding="utf-8")
    bug = next(bug for bug in BUGS.values() if len(bug.edits) > 1)
    store({bug.words: Found(7, "a rule")}, [bug], [copy])
    assert copy.read_text("utf-8").count(f"= found by {bug.finder} with seed 7: a rule\n") == len(bug.edits)

"""Whole supervisors in virtual time, with everything going wrong; the campaign has other seeds each time."""

import random
from collections import Counter
from collections.abc import Generator

import pytest

from agentrail.testing.simulator.fault_kinds import FAULTS
from agentrail.testing.simulator.simulator import MODES
from property_tests.volume import profile
from tests import hook_time
from tests.machinery.simulator.checked_simulator import CheckedSimulator

SEEDS = {"ci": 15, "campaign": 5_000}

FAULTS_THAT_HAPPEN = {"ci": len(FAULTS) // 2, "campaign": len(FAULTS)}
"""How many kinds of faults there must have been at least: the rarest come once in a hundred seeds."""


@pytest.fixture(autouse=True, scope="module")
def _hooks_are_timed() -> Generator[None]:
    """Have slow steps reported, as the command does that repeats a run: the time of a simulation is simulated too."""
    hook_time.allow(hook_time.TOLD)
    yield
    hook_time.allow(hook_time.ANY)


@pytest.mark.long
def test_no_rule_is_ever_broken_and_every_fault_happens() -> None:
    """One test: as several, each process that runs one would simulate all runs anew."""
    fired: Counter[str] = Counter()
    for mode in MODES:
        start = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
        for seed in range(start, start + SEEDS[profile()]):
            fired += CheckedSimulator(mode).check(seed).faults
    assert fired.keys() <= {fault.name for fault in FAULTS}
    assert len(fired) >= FAULTS_THAT_HAPPEN[profile()]

"""Whole supervisors in virtual time, with everything going wrong; the campaign has other seeds each time."""

import random
from collections import Counter
from functools import cache

import pytest

from agentrail.testing.simulator.fault_kinds import FAULTS
from agentrail.testing.simulator.run import MODES, Report, Simulator
from property_tests.volume import profile

SEEDS = {"ci": 150, "campaign": 5_000}


@cache
def reports(mode: str) -> tuple[Report, ...]:
    start = 0 if profile() == "ci" else random.SystemRandom().randrange(2**32)
    return tuple(Simulator(mode).check(seed) for seed in range(start, start + SEEDS[profile()]))


@pytest.mark.parametrize("mode", MODES)
def test_no_rule_is_ever_broken(mode: str) -> None:
    assert len(reports(mode)) == SEEDS[profile()]


def test_every_fault_happens() -> None:
    fired: Counter[str] = Counter()
    for mode in MODES:
        for report in reports(mode):
            fired += report.faults
    assert {fault.name for fault in FAULTS} == set(fired)

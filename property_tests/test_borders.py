"""Odd values from every port neither end a session nor make a step slow; those that once did are in `tests/runtime`."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable

import pytest

from property_tests.borders import MOST_CPU, longest_step, play
from property_tests.volume import profile
from tests.opcodes import counted_opcodes

THROUGH_SESSIONS = {"ci": 5_000, "campaign": 5_000_000}
PORTS = {"journal", "model", "plugin", "service", "tool"}

AT_ONCE = 40_000
"""How many values are drawn under one supervisor, which keeps all records in memory."""

MOST_OPCODES = 1_500_000
"""Instructions of the interpreter that may be counted where a step took longer than `MOST_CPU`: CI asserts no time."""

TIMES = 5
"""How often a slow step is measured again, alone: another program may have slowed it down."""


@pytest.mark.long
def test_no_value_of_any_port_ends_a_session_or_holds_a_step() -> None:
    seed, left = (0 if profile() == "ci" else random.SystemRandom().randrange(2**32)), THROUGH_SESSIONS[profile()]
    while left > 0:
        given, slow, seed = play(seed, min(left, AT_ONCE))
        assert given.keys() == PORTS
        assert [one for one in slow if _is_slow(functools.partial(longest_step, one))] == []
        left -= given.total()


def _is_slow(again: Callable[[Callable[[], float]], float]) -> bool:
    """Repeat a step that took long; return whether it is slow by its opcodes, or in the campaign by its CPU time."""
    with counted_opcodes() as counted:
        opcodes = again(lambda: counted[0])
    if opcodes > MOST_OPCODES:
        return True
    return profile() == "campaign" and min(again(time.thread_time) for _ in range(TIMES)) > MOST_CPU

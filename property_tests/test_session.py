from __future__ import annotations

import random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail.core.vocabulary.commands import Command
from agentrail.testing import Choose, Scene, SessionMachine
from agentrail.testing.world.next_inputs import Move
from agentrail.testing.world.random_setups import draw_scene
from agentrail.values.value import Value
from property_tests.volume import profile, run_one
from tests.kit import Phase
from tests.machinery.worlds.checked_world import CheckedWorld


class CheckedMachine(SessionMachine):
    """A state machine over one random session, whose world checks the invariants after every step."""

    def world_of(self, scene: Scene) -> CheckedWorld:
        return CheckedWorld(scene)


COMMANDS = frozenset(get_args(Command))
"""The inputs that are calls of users; an ended session refuses them."""


@given(st.integers(0, 2**32))
def test_the_invariants_hold_in_long_sessions(seed: int) -> None:
    run_one(seed, steps=200)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_a_session_is_rebuilt_from_any_number_of_its_records(seed: int) -> None:
    choose = Choose(random.Random(seed).randrange)
    world = CheckedWorld(draw_scene(choose))
    states = [world.state, world.open().state]
    for _ in range(40):
        step = world.go(choose)
        if step is None:
            break
        states.append(step.state)
    for number, state in enumerate(states):
        again = world.replay(number)
        assert again == state
        assert repr(again) == repr(state)


@pytest.mark.parametrize("seed", range(20))
def test_an_ended_session_refuses_every_call(seed: int) -> None:
    choose = Choose(random.Random(seed).randrange)
    world = CheckedWorld(draw_scene(choose))
    world.open()
    offered: dict[type[Value], Move] = {}
    while world.state.phase is not Phase.ENDED and len(world.records) < 400:
        offered |= {move.kind: move for move in world.moves() if move.kind in COMMANDS}
        world.go(choose)
    assert set(offered) == COMMANDS or world.state.phase is Phase.ENDED
    for move in offered.values():
        world.refuses(move.make(choose))


TestSession = CheckedMachine.TestCase
TestSession.settings = settings(max_examples=40 if profile() == "ci" else 3_000, stateful_step_count=40, deadline=None)

"""Random choices, the simplification of failing runs by their choices, and hooks built from choices."""

import pytest

from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.testing import Choose
from agentrail.testing.code_words import vocabulary
from agentrail.testing.laws.checking import TRIES, Replayed, Simplest
from agentrail.testing.laws.showing import draw_hook
from agentrail.testing.random_calls import CallDrawer
from agentrail.testing.world.choose import InTurn
from tests.testing.planted import Archivist


@pytest.mark.parametrize("below", [1, 2, 7, 12, 720])
@pytest.mark.parametrize("seed", range(3))
def test_each_number_comes_once_before_one_comes_again(below: int, seed: int) -> None:
    choose = InTurn(seed)
    drawn = [(choose.turn("one", below), choose.turn("other", below)) for _ in range(below)]
    for walk in zip(*drawn, strict=True):
        assert sorted(walk) == list(range(below))


def test_another_seed_walks_another_way() -> None:
    assert len({tuple(choose.turn("a", 100) for _ in range(5)) for choose in map(InTurn, range(20))}) == 20


def test_what_was_drawn_makes_the_same_again() -> None:
    choose = InTurn(3)
    words = (vocabulary(Archivist()),)
    for hook_name in sorted(HOOK_NAMES):
        choose.drawn.clear()
        hook = draw_hook(hook_name, CallDrawer(choose, words))
        assert hook.hook_name == hook_name
        assert draw_hook(hook_name, CallDrawer(Replayed(choose.drawn), words)) == hook


def test_each_two_values_that_are_read_together_meet_within_one_walk() -> None:
    caller = CallDrawer(InTurn(0), (vocabulary(Archivist()),))
    met = [caller.in_turn().args for _ in range(600)]
    assert {"size": 6, "volume": "archive"} in met


def too_much(choose: Choose) -> list[int] | None:
    """Draw numbers, and fail if one of them is above 500."""
    drawn: list[int] = []
    while choose.percent(90):
        drawn.append(choose.below(1_000))
    return drawn if any(item > 500 for item in drawn) else None


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_left_in_the_simplest_run_that_is_not_needed(seed: int) -> None:
    choose = InTurn(seed)
    while (failure := too_much(choose)) is None:
        choose.drawn.clear()
    assert Simplest(choose.drawn, failure, too_much).find() == [501]


def test_a_run_that_fails_now_and_then_is_played_so_often_and_no_more() -> None:
    played: list[int] = []

    def flaky(choose: Choose) -> str | None:
        drawn = [choose.below(10**6) for _ in range(50)]
        played.append(len(played))
        return None if len(played) % 2 else str(drawn[-1])

    assert Simplest([10**6] * 50, "as it was", flaky).find()
    assert len(played) <= TRIES

"""Worlds that are drawn: whatever others do, and wherever a connection is cut, a front end shows what was said."""

from collections import Counter
from typing import Final

import pytest

from tests.host.ag_ui.drawn_runs import World, drawn
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

WORLDS: Final = 2_000 if CAMPAIGN else 40


def test_a_front_end_shows_what_was_said() -> None:
    figures = Counter[str]()

    def count(world: World) -> None:
        figures.update(cuts=world.window.cuts, looks=world.looks)

    for seed in range(WORLDS):
        drawn(seed, count)
    assert figures["cuts"] > 5 * WORLDS
    assert figures["looks"] > WORLDS

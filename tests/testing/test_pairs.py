"""The kit finds pairs of plugins that were written without knowledge of how it draws calls."""

from collections.abc import Callable

import pytest

from agentrail.plugins import AnyPlugin, BudgetGuard, HumanApproval, SecurityGuard
from agentrail.testing import Trace, find_conflict, order_report, simulate
from tests.profiles import CAMPAIGN
from tests.testing.candidates import CANDIDATES
from tests.testing.pairs import PAIRS, SHOWN, Stored, bytes_counted_are_stored

SEEDS = range(3 if CAMPAIGN else 1)

Invariant = Callable[[Trace], None]


@pytest.mark.parametrize(("first", "second", "invariant"), PAIRS, ids=SHOWN)
def test_each_pair_breaks_its_invariant_and_neither_does_alone(
    first: AnyPlugin, second: AnyPlugin, invariant: Invariant
) -> None:
    script = SHOWN[invariant.__name__]
    for harmless in ([first], [second], [second, first]):
        invariant(simulate(harmless, script))
    with pytest.raises(AssertionError, match=r"counted|released"):
        invariant(simulate([first, second], script))


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("first", "second", "invariant"), PAIRS, ids=SHOWN)
def test_each_pair_is_found_among_fourteen_plugins_in_as_many_examples_as_are_tried_unasked(
    first: AnyPlugin, second: AnyPlugin, invariant: Invariant, seed: int
) -> None:
    conflict = find_conflict((*CANDIDATES, first, second), invariant, seed=seed)
    assert conflict is not None
    assert conflict.plugins == (first, second)
    assert len(conflict.script) <= 3


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("first", "second"), [pair[:2] for pair in PAIRS], ids=SHOWN)
def test_the_order_of_each_pair_matters(first: AnyPlugin, second: AnyPlugin, seed: int) -> None:
    (actual,) = order_report((first, second), examples=600, seed=seed)
    assert actual.hook == "before_tool"


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.parametrize("seed", range(12 if CAMPAIGN else 1))
@pytest.mark.parametrize(("first", "second", "invariant"), PAIRS, ids=SHOWN)
def test_of_five_plugins_the_report_finds_the_pair_that_the_search_finds(
    first: AnyPlugin, second: AnyPlugin, invariant: Invariant, seed: int
) -> None:
    plugins = (first, second, SecurityGuard(), BudgetGuard(max_calls=5), HumanApproval(tools=("write",)))
    conflict = find_conflict(plugins, invariant, seed=seed)
    assert conflict is not None
    assert conflict.plugins == (first, second)
    report = order_report(plugins, examples=120, seed=seed)
    assert (first, second, "before_tool") in [(actual.first, actual.second, actual.hook) for actual in report]


@pytest.mark.campaign
@pytest.mark.long
def test_the_reported_pair_is_found_among_all_others_of_its_kind() -> None:
    everybody: list[AnyPlugin] = [*CANDIDATES]
    for first, second, _ in PAIRS:
        everybody += first, second
    conflict = find_conflict(everybody, bytes_counted_are_stored)
    assert conflict is not None
    assert len(conflict.plugins) == 2
    assert conflict.plugins[0] == Stored()

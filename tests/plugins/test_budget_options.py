"""Options of `BudgetGuard` that are no limits are refused: a limit that nothing is above guards nothing."""

from itertools import product

import pytest

from agentrail.errors import BadOptions
from agentrail.plugins import BudgetGuard
from tests.each_case import each_case

LIMITS = (
    "max_tokens",
    "max_turn_tokens",
    "max_usd",
    "max_rounds",
    "max_turn_rounds",
    "max_calls",
    "max_turn_calls",
    "warn_at",
)


@each_case(product(LIMITS, [float("nan"), float("inf"), -1, -0.5, "3", True, []]))
def test_what_is_no_limit_is_refused_with_its_name(name: str, found: object) -> None:
    with pytest.raises(BadOptions, match=f"{name}=.* is no number from 0 on"):
        BudgetGuard(**{name: found})  # type: ignore[arg-type]


@each_case(product(LIMITS[:-1], [0, 1, 2.5, 1e6]))
def test_a_number_is_a_limit(name: str, found: float) -> None:
    assert getattr(BudgetGuard(**{name: found}), name) == found  # type: ignore[arg-type]


@pytest.mark.parametrize("found", [0, 0.5, 1, 1.1])
def test_a_warning_is_at_a_fraction_of_a_limit(found: float) -> None:
    assert BudgetGuard(warn_at=found).warn_at == found


@pytest.mark.parametrize("found", [2, 2.5, 80, 1e6])
def test_a_percentage_is_refused_with_the_fraction_that_is_meant(found: float) -> None:
    with pytest.raises(BadOptions, match=r"warn_at=.* is no fraction of a limit; 0.8 warns at 80 % of it"):
        BudgetGuard(warn_at=found)


def test_only_the_warning_has_no_none() -> None:
    assert BudgetGuard(max_rounds=None) == BudgetGuard()
    with pytest.raises(BadOptions, match=r"warn_at=None is no number from 0 on$"):
        BudgetGuard(warn_at=None)  # type: ignore[arg-type]

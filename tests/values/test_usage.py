"""Sums and differences of usage, of each of its fields, and figures that are no limit or price."""

import pytest

from agentrail.errors import WrongType
from agentrail.models import Limit, Price, Usage

ONE = Usage(100, 20, cached_tokens=30, reasoning_tokens=5, cost_usd=0.5, cache_write_tokens=7)
OTHER = Usage(1000, 200, cached_tokens=300, reasoning_tokens=50, cost_usd=0.25, estimated=True, cache_write_tokens=70)


def test_a_sum_has_the_sum_of_each_field_and_is_estimated_if_one_is() -> None:
    total = Usage(1100, 220, 330, 55, 0.75, estimated=True, cache_write_tokens=77)
    assert ONE.plus(OTHER) == OTHER.plus(ONE) == total
    assert ONE.plus(OTHER.but(cost_usd=None)).cost_usd is None
    assert ONE.plus(Usage()) == Usage().plus(ONE) == ONE


def test_a_difference_has_the_difference_of_each_field() -> None:
    total = ONE.plus(OTHER)
    assert total.minus(ONE) == OTHER
    assert total.minus(OTHER) == ONE.but(estimated=True)
    assert total.minus(OTHER.but(cost_usd=None)).cost_usd is None
    assert ONE.minus(Usage()) == ONE


def test_what_used_nothing_has_cost_nothing_and_else_a_cost_may_be_unknown() -> None:
    assert (Usage().spent_usd, Usage(1).spent_usd, Usage(estimated=True).spent_usd) == (0.0, None, None)
    assert (ONE.spent_usd, Usage(cost_usd=0.0).spent_usd) == (0.5, 0.0)


@pytest.mark.parametrize("figure", [0, -1, 1.5, True])
def test_a_limit_is_a_whole_number_from_1_on(figure: object) -> None:
    with pytest.raises(WrongType):
        Limit(requests_per_minute=figure)  # type: ignore[arg-type]  # on purpose
    assert Limit(tokens_per_minute=1).tokens_per_minute == 1


def test_each_token_is_paid_once() -> None:
    price = Price(1.0, 10.0, cached=0.1, cache_write=2.0)
    used = Usage(1_000_000, 100_000, cached_tokens=500_000, cache_write_tokens=200_000)
    assert price.cost(used) == pytest.approx(0.3 + 1.0 + 0.05 + 0.4)

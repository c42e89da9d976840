"""The limits of a host are positive figures."""

from itertools import product

import pytest

from agentrail.api.limits import DEFAULTS
from agentrail.errors import WrongType
from agentrail.host import HostLimits
from tests.each_case import each_case

OFF = "usd_per_day"
"""The limit that there may be none of."""


@each_case(
    case
    for case in product(HostLimits.__struct_fields__, [0, -1, float("nan"), float("inf"), True, "5", None])
    if case != (OFF, None)
)
def test_what_is_no_limit_is_refused(name: str, figure: object) -> None:
    with pytest.raises(WrongType, match=f"as `{name}`; give a "):
        DEFAULTS.but(**{name: figure})


def test_one_limit_may_be_none_and_is() -> None:
    assert DEFAULTS.usd_per_day is None
    assert DEFAULTS.but(usd_per_day=5).but(usd_per_day=None) == DEFAULTS


def test_a_count_is_a_whole_number_and_a_time_need_not_be() -> None:
    with pytest.raises(WrongType, match="a whole number from 1 on"):
        HostLimits(sessions=1.5)  # type: ignore[arg-type]  # what is refused
    assert HostLimits(idle_seconds=1, burst=1).idle_seconds == 1

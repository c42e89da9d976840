"""A session is deleted while it is used: each request has an answer of its call, and nothing of the session stays."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.host.model.races import BESIDE, raced
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

RACES: Final = 5_000 if CAMPAIGN else 250


@pytest.mark.campaign
def test_a_session_is_deleted_beside_all_other_requests() -> None:
    outcomes = Counter[tuple[str, int]]()
    for seed in range(RACES):
        outcomes.update(raced(seed))
    assert {call for call, _ in outcomes} == {route.call.name for route in BESIDE}
    assert {outcomes["delete_session", status] > RACES / 4 for status in (200, 404)} == {True}

"""Random plugins over a whole host: each request lives as the contract says, by whatever way it came in."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.host.model.lives import ENTRIES, lived
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

REQUESTS: Final = 20_000 if CAMPAIGN else 2_000
A_HOST: Final = 20
"""Requests to each host."""


@pytest.mark.campaign
def test_lives_of_requests_are_as_the_contract_says() -> None:
    ends, ran = Counter[tuple[str, str]](), 0
    for seed in range(REQUESTS // A_HOST):
        lives = lived(seed, A_HOST)
        ends += lives.ends
        ran += len(lives.ran)
    assert set(ends) == {(entry, end) for entry in ENTRIES for end in ("answers", "fails", "passes")}
    assert ran > REQUESTS / A_HOST

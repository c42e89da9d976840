"""What a function returned is looked at no longer than it is taken."""

from __future__ import annotations

import pytest

from agentrail.tools.function import as_result
from tests.opcodes import counted_opcodes


def test_a_list_of_many_numbers_is_refused_after_its_first() -> None:
    with counted_opcodes() as counted, pytest.raises(TypeError, match="more than 10000 items"):
        as_result("look", [0] * 300_000)
    assert counted[0] < 10_000

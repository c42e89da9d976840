"""JSON is frozen within its limits, whatever it was put together from."""

import pytest

from agentrail.errors import NotJson
from agentrail.values.json import MAX_ITEMS, freeze_object

ALREADY = freeze_object({"x": list(range(MAX_ITEMS // 2))})


def test_what_was_frozen_before_counts_where_it_stands_now() -> None:
    assert freeze_object({"a": ALREADY})["a"] is ALREADY
    with pytest.raises(NotJson, match="more than 10000 items"):
        freeze_object({"a": ALREADY, "b": [ALREADY]})

"""Puts the tests that take longest first: else one process may begin one of them when the others are done."""

from __future__ import annotations

import pytest


def put_long_ones_first(items: list[pytest.Item]) -> None:
    """Move the tests with the mark `long` to the front; all others keep their order."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)

"""Puts the tests that take longest first: else one process may begin one of them when the others are done.

Those of a file stay together, so that few processes start the browser or the server that they share.
"""

from __future__ import annotations

import os
from itertools import islice, pairwise
from math import ceil
from typing import TypeVar

import pytest

T = TypeVar("T")


def put_long_ones_first(items: list[pytest.Item]) -> None:
    """Move the tests with the mark `long` to where the processes begin; all others keep their order."""
    long = [item for item in items if item.get_closest_marker("long")]
    short = [item for item in items if not item.get_closest_marker("long")]
    items[:] = dealt(long, short, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def dealt(long: list[T], short: list[T], processes: int) -> list[T]:
    """Return all tests so that each of the *processes* gets some of the *long* ones, and begins with them.

    With `--dist worksteal` each begins with an equal part of the list, and takes what others have not begun from the
    end of theirs: a process that got all long ones would keep them.
    """
    order: list[T] = []
    rest = iter(short)
    bounds = pairwise(ceil(len(long) * place / processes) for place in range(processes + 1))
    for place, (begin, end) in enumerate(bounds):
        share = (len(long) + len(short) - len(order)) // (processes - place)
        own = long[begin:end]
        order += [*own, *islice(rest, max(0, share - len(own)))]
    return order

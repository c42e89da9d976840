"""How fast this machine is just now, by the CPU time of a fixed loop: `python -m tests.runner.speed` prints it."""

from __future__ import annotations

import time
from typing import Final

REFERENCE: Final = 0.023
"""CPU seconds of the loop on the machine on which the budgets were set, with nothing beside it."""

_PASSES: Final = 500_000


def loop_seconds() -> float:
    """Return the CPU seconds of the loop, the least of three."""
    return min(_once() for _ in range(3))


def _once() -> float:
    before = time.process_time()
    total = 0
    for number in range(_PASSES):
        total ^= number * 3
    return time.process_time() - before


def slowness() -> float:
    """Return how much longer this machine takes than the one of `REFERENCE`; 1 if it is faster."""
    return max(1.0, loop_seconds() / REFERENCE)


if __name__ == "__main__":
    print(f"{loop_seconds() * 1000:.0f} ms")  # noqa: T201 - a command

"""A fork of the process that is killed at one of the failpoints that it comes to."""

import os
from collections.abc import Callable

from tests.kit import Failpoint, watching
from tests.recovery.writer import REACHED


def fork_killed_at(index: int, do: Callable[[], object]) -> int:
    """Start a process that does *do* and ends at failpoint number *index*, with the status `REACHED`; return its id.

    If it does not come to so many, it ends with the status 0.
    """
    child = os.fork()
    if child:
        return child
    reached = 0

    def watch(_: Failpoint) -> None:
        nonlocal reached
        reached += 1
        if reached == index:
            os._exit(REACHED)

    with watching(watch):
        do()
    os._exit(0)

"""`SharedState`: the few bytes that all workers and the dispatcher see, without a message."""

from __future__ import annotations

from mmap import mmap
from struct import Struct
from typing import Final

_INDEX: Final = Struct("i")

NO_TEST: Final = -1
"""In the place of a test, if a worker runs none."""


class SharedState:
    """Which test each worker runs, so that a dead one leaves a trace, and whether all shall stop."""

    def __init__(self, workers: int) -> None:
        self._memory = mmap(-1, _INDEX.size * workers + 1)  # shared with all forks

    def running(self, number: int, index: int) -> None:
        """Take note that worker *number* runs the test at *index*."""
        _INDEX.pack_into(self._memory, 1 + number * _INDEX.size, index)

    def test_of(self, number: int) -> int:
        """Return the place of the test that the worker runs, or ran when it died; `NO_TEST` if none."""
        (index,) = _INDEX.unpack_from(self._memory, 1 + number * _INDEX.size)
        return int(index)

    def stop(self) -> None:
        """Have each worker begin no other test."""
        self._memory[0] = 1

    @property
    def is_stopped(self) -> bool:
        """Whether no other test shall begin."""
        return self._memory[0] != 0

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()

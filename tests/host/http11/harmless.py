"""What requests that are nearly right may not do to a server: hold its loop, fill its memory."""

from __future__ import annotations

import gc
import math
import resource
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trio

from tests.profiles import CAMPAIGN

MOST_MEMORY: Final = 16 * 2**20
"""Bytes by which memory may grow."""
LONGEST_STEP: Final = 0.05
"""Seconds of CPU that a step of a task may take; how long one takes hangs on the machine, so the campaign asks."""


class Steps(trio.abc.Instrument):
    """Measures the longest step of any task, in CPU: other programs may take the processor away."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = math.inf

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest = max(self.longest, time.thread_time() - self._began)


@contextmanager
def harmless() -> Generator[None]:
    """Demand that what happens within takes short steps, and leaves little in memory."""
    steps, memory = Steps(), _memory()
    trio.lowlevel.add_instrument(steps)
    yield
    trio.lowlevel.remove_instrument(steps)
    assert _memory() - memory <= MOST_MEMORY
    if CAMPAIGN:
        assert steps.longest <= LONGEST_STEP


def _memory() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()

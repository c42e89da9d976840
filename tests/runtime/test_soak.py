"""Many sessions, one after the other, under a supervisor with default settings: nothing of them remains."""

import gc
import threading
import tracemalloc
from pathlib import Path

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.runtime.diagnosis import watchdog
from agentrail.testing import ScriptedModel
from tests.profiles import CAMPAIGN
from tests.runtime.world import settle

pytestmark = pytest.mark.long

COUNT = 100_000 if CAMPAIGN else 2_500
MOST_GROWN = (1024 if CAMPAIGN else 512) * 1024
AT_ONCE = 50


def held() -> tuple[int, int, int]:
    """Return the numbers of tasks, file descriptors and threads."""
    tasks = trio.lowlevel.current_statistics().tasks_living
    return tasks, len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


async def test_nothing_is_left_of_sessions_that_were_started_and_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "SLOW", 3600.0)  # what it says on a busy machine is kept too, and is no session's
    async with open_supervisor() as supervisor:

        async def one(number: int) -> None:
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"])), f"s{number}")
            if number % 10 == 0:
                await session.ask("go")
            await session.stop()

        async def many(first: int, count: int) -> None:
            for start in range(first, first + count, AT_ONCE):
                async with trio.open_nursery() as nursery:
                    for number in range(start, start + AT_ONCE):
                        nursery.start_soon(one, number)
            await settle()
            gc.collect()

        await many(0, COUNT // 10)
        old = held()
        tracemalloc.start()
        memory = tracemalloc.get_traced_memory()[0]
        await many(COUNT // 10, COUNT - COUNT // 10)
        grown = tracemalloc.get_traced_memory()[0] - memory
        tracemalloc.stop()
        tasks, descriptors, threads = held()
        assert (tasks, descriptors) == old[:2]
        assert threads <= old[2]  # an idle one of Trio's may have gone in the meantime
        assert grown < MOST_GROWN
        assert supervisor.sessions() == ()

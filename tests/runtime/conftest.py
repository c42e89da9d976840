from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from tests.runtime.world import World, open_world

T = TypeVar("T")

A_DAY = 24 * 60 * 60


def run_in_virtual_time(
    test: Callable[[], Awaitable[T]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> T:
    """Time jumps whenever nobody can run: no test here takes real time, and none runs for ever."""

    async def bounded() -> T:
        with trio.fail_after(A_DAY):
            return await test()

    return trio.run(bounded, clock=clock or trio.testing.MockClock(autojump_threshold=0), instruments=instruments)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and isinstance(item, pytest.Function) and iscoroutinefunction(item.obj):
            item.add_marker(pytest.mark.trio(run=run_in_virtual_time))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened

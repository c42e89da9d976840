import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.mcp.rig import Forking, Marked
from tests.runtime.world import World, open_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


@pytest.fixture
def marked() -> Iterator[Marked]:
    made = Marked()
    yield made
    for pid in made.alive():  # of this very test
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def forking() -> Iterator[Forking]:
    made = Forking()
    yield made
    made.end()

"""Ray and a database for the tests that need them."""

from collections.abc import Iterator

import pytest

from tests.adapters.journals.postgres.conftest import server, url
from tests.cluster.raylets import Raylets, raylets

__all__ = ["server", "url"]


@pytest.fixture(scope="package")
def ray_machines() -> Iterator[Raylets]:
    """Ray, started once for all files: that takes longer than most tests, and its idle processes a part of a core."""
    with raylets() as machines:
        yield machines


@pytest.fixture(scope="module")
def started(ray_machines: Raylets) -> Iterator[Raylets]:
    """Ray, with its environment: tests of other files, which the same process runs, do not have that."""
    with ray_machines.environment():
        yield ray_machines


@pytest.fixture
def machines(started: Raylets) -> Raylets:
    """Ray with two machines, whatever the test before has killed."""
    started.fill()
    return started

"""Ray and a database for the tests that need them."""

from collections.abc import Iterator

import pytest

from tests.adapters.journals.postgres.conftest import server, url
from tests.cluster.raylets import Raylets, raylets

__all__ = ["server", "url"]


@pytest.fixture(scope="session")
def started() -> Iterator[Raylets]:
    """Ray, which is started once for all files: that takes longer than most tests."""
    with raylets() as machines:
        yield machines


@pytest.fixture
def machines(started: Raylets) -> Raylets:
    """Ray with two machines, whatever the test before has killed."""
    started.fill()
    return started

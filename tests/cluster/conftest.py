"""Ray and a database for the tests that need them."""

from collections.abc import Iterator

import pytest

from tests.adapters.journals.postgres.conftest import server, url
from tests.cluster.raylets import Raylets, raylets

__all__ = ["server", "url"]


@pytest.fixture(scope="session")
def machines() -> Iterator[Raylets]:
    """Ray with two machines; a test that kills one adds another."""
    with raylets(2) as machines:
        yield machines

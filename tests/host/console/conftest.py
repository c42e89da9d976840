"""One host and one browser for the tests of a module."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.host.console.visiting import Visitor, visiting


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Generator[Visitor]:
    with visiting(tmp_path_factory.mktemp("host")) as opened:
        yield opened

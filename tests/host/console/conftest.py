"""One host and one browser for the tests of a module."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.host.console.visiting import Visitor, visiting


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the host works."""
    return tmp_path_factory.mktemp("host")


@pytest.fixture(scope="module")
def visitor(folder: Path) -> Generator[Visitor]:
    with visiting(folder) as opened:
        yield opened

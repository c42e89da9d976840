from pathlib import Path

import pytest

from tests.runtime.conftest import mark_virtual


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_virtual(items, Path(__file__).parent)

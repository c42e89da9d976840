import pytest

from tests.order import put_long_ones_first
from tests.profiles import load_profile

load_profile()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    put_long_ones_first(items)

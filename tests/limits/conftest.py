from inspect import iscoroutinefunction
from pathlib import Path

import pytest

from tests.runtime.conftest import run_in_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and isinstance(item, pytest.Function) and iscoroutinefunction(item.obj):
            item.add_marker(pytest.mark.trio(run=run_in_virtual_time))

"""The tests of the host on other servers: `AGENTRAIL_HOST_SERVER` names one of `tests.host.asgi.servers`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host.asgi.exceptions import OWN, why_not
from tests.host.asgi.servers import SERVER

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what another server cannot do, and say why."""
    if SERVER == OWN:
        return
    for item in items:
        if item.path.is_relative_to(HERE):
            name = f"{item.path.relative_to(HERE)}::{item.name}"
            reason = why_not(SERVER, name)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))

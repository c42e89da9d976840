"""The tests of the host, by way of the ASGI servers: what cannot run there is skipped, with its reason.

`AGENTRAIL_PROFILE=campaign` runs all of them, and CI some. `make asgi` prints the reasons.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.host.asgi.servers import SERVERS
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

TRIED: Final = list(SERVERS) if CAMPAIGN else ["hypercorn-trio", "uvicorn"]
"""In CI each of the two loops, and each of the two programs."""

HERE: Final = Path(__file__).parent.parent
FILES: Final = ["."] if CAMPAIGN else ["test_host.py", "websocket/test_calls.py"]


@pytest.mark.parametrize("server", TRIED)
def test_the_host_does_the_same_on_each_server(server: str) -> None:
    files = [str(HERE / file) for file in FILES]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not long", "-p", "no:cacheprovider", *files]
    environment = os.environ | {"AGENTRAIL_HOST_SERVER": server}
    ran = subprocess.run(  # noqa: S603
        command, cwd=HERE.parent.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-20_000:]

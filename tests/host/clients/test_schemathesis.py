"""Schemathesis asks a host for all that its document has, and for what it has not: `make campaign` installs it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from agentrail.api.operation_table import ROUTES
from tests.host.clients.offline_host import KEY, open_offline_host
from tests.host.clients.programs import run
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

HERE: Final = Path(__file__).parent
SCHEMATHESIS: Final = HERE.parents[2] / "build" / "schemathesis" / "bin" / "schemathesis"
EXAMPLES: Final = 300 if CAMPAIGN else 5
"""The most requests of each route that are made by chance, in each phase; the cases at the borders come beside them."""
PATIENCE: Final = 7200.0 if CAMPAIGN else 600.0


@pytest.mark.skipif(
    not SCHEMATHESIS.is_file(), reason="NOT PROVED, because schemathesis is not installed: run `make campaign`"
)
async def test_a_host_answers_as_its_document_says(tmp_path: Path) -> None:
    """No status, header or form that it lacks; what fits is taken, and what does not is refused; never a fault."""
    for path in HERE.glob("schemathesis*"):
        shutil.copy(path, tmp_path)
    async with open_offline_host(tmp_path / "files") as host:
        options = ["--header", f"Authorization: Bearer {KEY}", "--max-examples", EXAMPLES]
        settings = ["--config-file", "schemathesis.toml", "--no-color"]
        document = f"{host.url}/openapi.json"
        await run(SCHEMATHESIS, *settings, "run", document, *options, folder=tmp_path, patience=PATIENCE)
    assert host.statuses.keys() == {route.call.name for route in ROUTES}

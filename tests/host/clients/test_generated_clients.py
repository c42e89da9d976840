"""Clients that are made of the OpenAPI document call each route of a host: a route without a call in one is found here.

`make client-makers` installs what makes them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

import httpx
import pytest

from agentrail.api.operation_table import ROUTES, WEBSOCKET
from tests.host.clients.offline_host import KEY, OfflineHost, open_offline_host
from tests.host.clients.programs import run

pytestmark = pytest.mark.long

HERE: Final = Path(__file__).parent
INSTALLED: Final = HERE.parents[2] / "build" / "clients"
PYTHON_MAKER: Final = INSTALLED / "python" / "bin" / "openapi-python-client"
MODULES: Final = INSTALLED / "node_modules"
TYPES_MAKER: Final = MODULES / "openapi-typescript" / "bin" / "cli.js"
COMPILER: Final = MODULES / "typescript" / "bin" / "tsc"
NODE: Final = shutil.which("node")
UPGRADE_REQUIRED: Final = 426
FORBIDDEN: Final = 403
UNKNOWN: Final = 404


async def written_document(host: OfflineHost, folder: Path) -> Path:
    """Write the document of *host* to a file."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        response = await client.get(f"{host.url}/openapi.json")
    path = folder / "openapi.json"
    path.write_bytes(response.content)
    return path


def check_each_route(statuses: dict[str, set[int]]) -> None:
    """Check that each route has been called, and has given what it gives if all is well."""
    expected = {
        route.call.name: {UPGRADE_REQUIRED if route.call.media == WEBSOCKET else route.call.status} for route in ROUTES
    }
    expected["console_file"] = {UNKNOWN}  # whether there are any depends on whether the console is built
    expected["chat"] |= {202}  # a call that waits for a person
    expected["file"] = expected["file_piece"] = {UNKNOWN}  # no tool has written any
    expected["evaluation"] = expected["evaluations"] = {FORBIDDEN}  # they are the operator's
    assert expected.keys() - statuses.keys() == set(), "call these routes in the program too"
    assert statuses == expected


@pytest.fixture(autouse=True)
def home_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the snapshots of files of the test, and not of the user."""
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))


@pytest.mark.skipif(
    not PYTHON_MAKER.is_file(),
    reason="NOT PROVED, because `openapi-python-client` is not installed: run `make client-makers`",
)
async def test_a_generated_python_client_calls_each_route(tmp_path: Path) -> None:
    program, settings = HERE / "calls_in_python.py", tmp_path / "settings.yaml"
    settings.write_text("post_hooks: []\n", encoding="utf-8")  # they would format the client
    async with open_offline_host(tmp_path / "files") as host:
        document = await written_document(host, tmp_path)
        options = ["--path", document, "--config", settings, "--meta", "none"]
        await run(PYTHON_MAKER, "generate", *options, "--output-path", "agentrail_client", folder=tmp_path)
        strict = ["--strict", "--follow-imports=silent", "--config-file=", "--cache-dir=types"]
        await run(sys.executable, "-m", "mypy", *strict, program, folder=tmp_path, MYPYPATH=str(tmp_path))
        await run(sys.executable, program, host.url, KEY, folder=tmp_path, PYTHONPATH=str(tmp_path))
    check_each_route(host.statuses)


@pytest.mark.skipif(
    NODE is None or not COMPILER.is_file(),
    reason="NOT PROVED, because `openapi-typescript` or node is not installed: run `make client-makers`",
)
async def test_a_generated_typescript_client_calls_each_route(tmp_path: Path) -> None:
    assert NODE is not None
    (tmp_path / "node_modules").symlink_to(MODULES)
    program = shutil.copy(HERE / "calls_in_typescript.mts", tmp_path)
    async with open_offline_host(tmp_path / "files") as host:
        document = await written_document(host, tmp_path)
        options = ["--default-non-nullable=false", "--output", "host_types.d.ts"]
        await run(NODE, TYPES_MAKER, document, *options, folder=tmp_path)
        strict = ["--strict", "--noEmitOnError", "--target", "es2022", "--module", "nodenext"]
        await run(NODE, COMPILER, *strict, "--lib", "es2022,dom,dom.iterable", program, folder=tmp_path)
        await run(NODE, Path(program).with_suffix(".mjs"), host.url, KEY, folder=tmp_path)
    check_each_route(host.statuses)

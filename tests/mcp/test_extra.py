"""Without the extra everything else works, and whoever wants an MCP server is told what to install."""

import subprocess
import sys

import pytest

from agentrail.adapters.extras import install_command

pytestmark = pytest.mark.long

WITHOUT = """
import sys
sys.modules["mcp"] = None
import trio
from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.mcp import McpServer
from agentrail.errors import ExtraMissing

async def main():
    async with open_supervisor() as supervisor:
        try:
            await supervisor.spawn(SessionSpec(model="demo", tools=[McpServer(["x"])]), id="s-1")
        except ExtraMissing as error:
            print(error)
        session = await supervisor.spawn(SessionSpec(model="demo"), id="s-1")
        await session.ask("hi")
        print([name for name in sys.modules if name.startswith(("mcp.", "pydantic", "httpx2", "anyio"))])

trio.run(main)
"""


def _in_a_fresh_interpreter(code: str) -> str:
    command = [sys.executable, "-I", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own code


def test_without_the_extra_it_is_said_what_to_install() -> None:
    said = _in_a_fresh_interpreter(WITHOUT)
    wanted = "cannot use an MCP server: it needs packages of the extra `mcp`, which are not installed; run `"
    told, nothing = said.splitlines()
    assert told == f"{wanted}{install_command('mcp')}`"
    assert nothing == "[]"

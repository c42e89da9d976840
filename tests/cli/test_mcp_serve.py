"""`agentrail mcp serve`, as an MCP client starts it: over pipes, with both protocols."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from tests.patience import within

pytest.importorskip("mcp")

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitRequestParams, ElicitResult

pytestmark = pytest.mark.long


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_starts_it_and_decides_what_waits(tmp_path: Path, mode: str) -> None:
    asked: list[str] = []

    async def approve(context: object, params: ElicitRequestParams) -> ElicitResult:  # noqa: ARG001 - its contract
        await trio.lowlevel.checkpoint()
        asked.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve"})

    arguments = ["-m", "agentrail", "mcp", "serve", "--model", "demo", "--journal", str(tmp_path / "j.db")]
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    command = StdioServerParameters(command=sys.executable, args=arguments, cwd=tmp_path, env=environment)
    with (tmp_path / "errors.txt").open("w", encoding="utf-8") as errors, trio.fail_after(within(60)):
        async with Client(stdio_client(command, errlog=errors), mode=mode, elicitation_callback=approve) as client:
            result = await client.call_tool("prompt", {"text": "write hello to a.txt"})
            refused = await client.call_tool("prompt", {"text": "hi", "session": "nobody"})
    assert result.is_error is False
    assert len(asked) == 1
    assert (tmp_path / "a.txt").read_text("utf-8") == "hello"
    assert refused.is_error is True
    assert "there is no session" in str(refused.content)

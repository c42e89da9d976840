"""The MCP inspector, as a command, talks to both servers: that of a host, and `agentrail mcp serve`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Final, cast

import pytest
import trio

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Host, Profile
from agentrail.testing import ScriptedModel
from tests.host.hosted import KEYS, LIMITS, LINES
from tests.mcp.conformance.suite import HERE, NODE
from tests.mcp.rig import NO_EXTRA

pytest.importorskip("mcp", reason=NO_EXTRA)

PACKAGE: Final = HERE / "build/inspector/node_modules/@modelcontextprotocol/inspector"
INSPECTOR: Final = PACKAGE / "clients/launcher/build/index.js"
ERAS: Final = ("legacy", "modern")

pytestmark = [
    pytest.mark.long,
    pytest.mark.campaign,
    pytest.mark.skipif(
        not INSPECTOR.is_file() or not NODE.is_file(), reason="the inspector is not installed: run `make mcp-inspector`"
    ),
    pytest.mark.parametrize("era", ERAS),
]


async def inspect(home: Path, era: str, *words: str) -> dict[str, object]:
    """Run one request of the inspector, whose files are in *home*, and return what it prints."""
    environment = {**os.environ, "HOME": str(home), "AGENTRAIL_HOME": str(home / "agentrail")}
    ended = await trio.run_process(
        [str(NODE), str(INSPECTOR), "--cli", "--protocol-era", era, *words],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        env=environment,
        cwd=home,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return cast("dict[str, object]", json.loads(ended.stdout))


async def exercise(home: Path, era: str, *target: str) -> dict[str, str]:
    """List the tools of a server, call its tool, and return the data of the result."""
    listed = await inspect(home, era, "--method", "tools/list", "--strict", *target)
    assert [offered["name"] for offered in cast("list[dict[str, str]]", listed["tools"])] == ["prompt"]
    call = ("--method", "tools/call", "--tool-name", "prompt", "--tool-arg", "text=hello")
    result = await inspect(home, era, *call, *target)
    return cast("dict[str, str]", result["structuredContent"])


async def test_it_calls_the_tool_of_a_host(tmp_path: Path, era: str) -> None:
    spec = SessionSpec(model=ScriptedModel(["Hello."]))
    host = Host([Profile("desk", spec)], authenticator=ApiKeys(lines=LINES), limits=LIMITS, mcp=True)
    async with host.serving() as serving:
        key = f"Authorization: Bearer {KEYS['ann']}"
        answer = await exercise(tmp_path, era, "--header", key, "--server-url", f"{serving.url}/v1/mcp")
    assert (answer["text"], answer["stop_reason"]) == ("Hello.", "end")


async def test_it_starts_the_command_and_calls_its_tool(tmp_path: Path, era: str) -> None:
    serve = (sys.executable, "-m", "agentrail", "mcp", "serve", "--model", "demo", "--dir", str(tmp_path))
    answer = await exercise(tmp_path, era, "--", *serve)
    assert answer["text"]

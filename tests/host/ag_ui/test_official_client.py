"""The official client of AG-UI talks to a host: calls, interrupts, aborts, sub-agents, a kill, a reload."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any, Final

import pytest
import trio

from tests.cli.acp.test_foreign_editors import node
from tests.docs.sources import ROOT
from tests.host.ag_ui import desk
from tests.host.asgi.exceptions import OWN
from tests.host.asgi.processes import COMMANDS, process
from tests.host.commanded import SERVE, commanded
from tests.host.hosted import KEYS, LINES
from tests.patience import within

pytestmark = pytest.mark.long

MODULES: Final = ROOT / "build" / "ag_ui" / "node_modules"
HERE: Final = Path(__file__).parent
ON_EACH: Final = pytest.mark.parametrize("server", [OWN, *COMMANDS])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the scenes, the example, the packages, and the keys of the host."""
    if not (MODULES / "@ag-ui" / "client").exists():
        pytest.skip("the official client from npm is not installed: `make ag-ui-client` does that")
    (tmp_path / "node_modules").symlink_to(MODULES)
    shutil.copy(HERE / "official_client.mjs", tmp_path)
    shutil.copy(ROOT / "docs" / "examples" / "ag-ui" / "durable_agent.js", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "keys.txt").write_text(LINES, encoding="utf-8")
    (tmp_path / "keys.txt").chmod(0o600)
    return tmp_path


@asynccontextmanager
async def scenes(folder: Path, port: int, *names: str) -> AsyncGenerator[trio.Process]:
    """Run scenes; what they print is read by the caller, and they must end well."""
    command = [node(20), "official_client.mjs", f"http://127.0.0.1:{port}", KEYS["ann"], *names]
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, cwd=folder, stdout=PIPE)
        process: trio.Process = await nursery.start(run, command)
        with trio.fail_after(2 * within(30)):  # a host that is killed is started twice
            yield process
            await process.wait()


async def lines(process: trio.Process) -> AsyncGenerator[str]:
    assert process.stdout is not None
    text = b""
    async for piece in process.stdout:
        *full_lines, text = (text + piece).split(b"\n")
        for line in full_lines:
            yield line.decode()


@asynccontextmanager
async def served(server: str, folder: Path, listener: socket.socket) -> AsyncGenerator[trio.Process]:
    """Serve the desk by its own server or by another one, in a process of its own."""
    if server == OWN:
        number = listener.fileno()
        command = [*SERVE, desk.__file__, "--descriptor", str(number)]
        async with commanded(command, folder, descriptors=[number]) as host:
            yield host.process
    else:
        app = f"{desk.__name__}:app"
        async with process(server, folder, listener, app, PYTHONPATH=str(ROOT)) as ran:
            yield ran


async def played(server: str, folder: Path, *names: str) -> dict[str, dict[str, Any]]:
    """Play scenes with a host; at the line `kill`, it is killed, and another process takes its place."""
    facts = dict[str, dict[str, Any]]()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with scenes(folder, listener.getsockname()[1], *names) as client:
            output_lines = lines(client)
            is_over = False
            while not is_over:
                async with served(server, folder, listener) as host:
                    is_over = True
                    async for line in output_lines:
                        if line == "kill":
                            host.kill()
                            await host.wait()
                            is_over = False
                            break
                        scene = json.loads(line)
                        facts[scene.pop("scene")] = scene
    return facts


@ON_EACH
async def test_the_official_client_runs_turns(folder: Path, server: str) -> None:
    facts = await played(server, folder, "tool", "interrupt", "abort", "subagent", "reload")
    tool = facts["tool"]
    assert tool["types"] == [
        "RUN_STARTED",
        "MESSAGES_SNAPSHOT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert tool["call"] == {"name": "add", "arguments": '{"a":2,"b":3}'}
    assert tool["said"] == [["user", "add 2 3"], ["assistant", "I add."], ["tool", "5"], ["assistant", "It is 5."]]
    interrupt = facts["interrupt"]
    assert (interrupt["first"], interrupt["refused"], interrupt["second"]) == ("interrupt", True, "success")
    assert [word for _, word in interrupt["said"]] == ["pay eve", "I pay.", "paid eve", "It is paid eve."]
    assert interrupt["left"] == []
    assert facts["abort"] == {"outcome": "cancelled", "status": 204}
    subagent = facts["subagent"]
    assert (subagent["started"], subagent["ended"], subagent["outcome"]) == (True, True, "success")
    assert [word for _, word in subagent["inner"]] == ["I add.", "5", "It is 5."]
    assert subagent["last"] == ["assistant", "It is It is 5.."]
    reload = facts["reload"]
    assert (reload["outcome"], reload["same"]) == ("success", True)
    assert reload["types"][:3] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START"]
    assert [word for _, word in reload["said"]] == ["count 200", " ".join(f"n{index}" for index in range(200))]


@pytest.mark.campaign
@ON_EACH
async def test_the_official_client_outlives_a_host_that_is_killed(folder: Path, server: str) -> None:
    killed = (await played(server, folder, "killed"))["killed"]
    assert killed["outcome"] == "success"
    assert [word for _, word in killed["said"]] == ["count 200", " ".join(f"n{index}" for index in range(200))]


async def test_what_the_guide_shows_runs(folder: Path) -> None:
    page = (ROOT / "docs" / "guide" / "ag-ui.md").read_text(encoding="utf-8")
    for name, block in zip(("first", "second"), re.findall(r"```js\n(.*?)```", page, re.DOTALL), strict=True):
        module = f"const [host, key] = process.argv.slice(2);\n{block}\nexport {{ agent }};\n"
        (folder / f"{name}.mjs").write_text(module, encoding="utf-8")
    guide = (await played(OWN, folder, "guide"))["guide"]
    assert guide["first"] == [["user", "hello"], ["assistant", "What?"]]
    assert [word for _, word in guide["second"]] == ["add 2 3", "I add.", "5", "It is 5."]

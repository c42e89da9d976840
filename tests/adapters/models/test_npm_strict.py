"""Sessions with a server that nobody here wrote and that is strict about headers, keys and bodies.

It imitates chat completions: `make model-servers` installs it. What its body parser is not told to be JSON it does not
read, and refuses.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import pytest
import trio

from agentrail import Secret, SessionSpec, open_supervisor, tool
from agentrail.adapters.models.model_turns import RULE
from agentrail.errors import TurnAborted
from agentrail.models import Json
from tests.free_port import free_port

SERVER: Final = Path(__file__).parents[3] / "build" / "models" / "node_modules" / "openai-mock-api" / "dist" / "cli.js"
NODE: Final = shutil.which("node")
KEY: Final = "sk-0123456789"
PATIENCE: Final = 20.0

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        NODE is None or not SERVER.is_file(),
        reason="the strict imitation from npm is not installed: `make model-servers`",
    ),
]

CALL: Final = {"id": "call_1", "type": "function", "function": {"name": "lamp", "arguments": '{"room":"kitchen"}'}}
ASKED: Final = [
    {"role": "system", "content": f"Be short.\n\n{RULE}"},
    {"role": "user", "content": "is the lamp on?"},
]
FLOW: Final = [
    *ASKED,
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "the lamp in the kitchen is on"},
    {"role": "assistant", "content": "It is on."},
]
CONFIG: Final = {
    "apiKey": KEY,
    "responses": [{"id": "asked", "messages": FLOW[:3]}, {"id": "answered", "messages": FLOW}],
}


@tool
async def lamp(room: str) -> str:
    """Look at a lamp."""
    return f"the lamp in the {room} is on"


@asynccontextmanager
async def strict_server(folder: Path) -> AsyncIterator[str]:
    config = folder / "config.yaml"
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    port = free_port()
    command = [str(NODE), str(SERVER), "--config", str(config), "--port", str(port)]
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
        process: trio.Process = await nursery.start(start)
        assert process.stdout is not None
        try:
            said = b""
            with trio.fail_after(PATIENCE):
                while b"started on port" not in said:
                    piece = await process.stdout.receive_some()
                    assert piece, said
                    said += piece
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def spec(url: str) -> SessionSpec:
    options: dict[str, Json] = {"base_url": url, "api_key": Secret("KEY")}
    return SessionSpec(
        model="openai-chat:gpt-5.4", tools=[lamp], system="Be short.", model_options=options, max_retries=0
    )


async def test_a_strict_server_takes_our_requests(tmp_path: Path) -> None:
    async with strict_server(tmp_path) as url, open_supervisor(secrets={"KEY": KEY}.get) as supervisor:
        session = await supervisor.spawn(spec(url))
        assert (await session.ask("is the lamp on?")).text == "It is on."


async def test_a_strict_server_refuses_what_is_not_said_to_be_json(tmp_path: Path) -> None:
    body = json.dumps({"model": "gpt-5.4", "messages": ASKED}).encode()
    async with strict_server(tmp_path) as url, httpx.AsyncClient(timeout=PATIENCE) as client:
        headers = {"authorization": f"Bearer {KEY}"}
        bare = await client.post(f"{url}/chat/completions", content=body, headers=headers)
        typed = await client.post(
            f"{url}/chat/completions", content=body, headers={**headers, "content-type": "application/json"}
        )
    assert (bare.status_code, typed.status_code) == (400, 200)


async def test_a_strict_server_refuses_another_key(tmp_path: Path) -> None:
    async with strict_server(tmp_path) as url, open_supervisor(secrets={"KEY": "sk-another-one"}.get) as supervisor:
        session = await supervisor.spawn(spec(url))
        with pytest.raises(TurnAborted, match="401"):
            await session.ask("is the lamp on?")

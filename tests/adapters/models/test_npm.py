"""Sessions with a server that nobody here wrote, which imitates the providers: `make model-servers` installs it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from agentrail import SessionSpec, Supervisor, open_supervisor, tool
from agentrail.errors import TurnAborted
from agentrail.models import AssistantMessage, StopReason, Text, Thinking, ToolMessage

SERVER = Path(__file__).parents[3] / "build" / "models" / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
ANSWERS = Path(__file__).parent / "imitation.json"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        NODE is None or not SERVER.is_file(), reason="the imitation from npm is not installed: run `make model-servers`"
    ),
]

MODELS = {
    "anthropic:claude-sonnet-5": "",
    "openai:gpt-5.4": "/v1",
    "openai-chat:gpt-5.4": "/v1",
    "gemini:gemini-3-flash-preview": "",
}
"""Models, and the path of each API on the server."""
PATIENCE = 20.0


@tool
async def lamp(room: str) -> str:
    """Look at a lamp."""
    return f"the lamp in the {room} is on"


@tool
async def lamps() -> str:
    """Look at all lamps."""
    return "two"


@asynccontextmanager
async def imitation() -> AsyncIterator[str]:
    """Start the server, and yield its address."""
    command = [str(NODE), str(SERVER), "--strict", "--port", "0", "--chunk-size", "5", "--fixtures", str(ANSWERS)]
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
        process: trio.Process = await nursery.start(start)
        try:
            with trio.fail_after(PATIENCE):
                yield await _address(process)
        finally:
            process.kill()  # asked to end, it would wait for its connections


async def _address(process: trio.Process) -> str:
    assert process.stdout is not None
    said = b""
    while b"listening on " not in said or not said.endswith(b"\n"):
        piece = await process.stdout.receive_some()
        assert piece, said
        said += piece
    return said.partition(b"listening on ")[2].split()[0].decode()


@asynccontextmanager
async def opened() -> AsyncIterator[Supervisor]:
    keys = {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "OPENAI_API_KEY": "sk-0123456789", "GEMINI_API_KEY": "AIza-01234"}
    async with open_supervisor(secrets=keys.get, seed=1) as supervisor:
        yield supervisor


def spec(model: str, server: str) -> SessionSpec:
    options = {"base_url": server + MODELS[model]}
    return SessionSpec(model=model, tools=[lamp, lamps], system="Be short.", model_options=options, max_retries=0)


@pytest.mark.parametrize("model", MODELS)
async def test_a_session_talks_calls_tools_and_goes_on(model: str) -> None:
    async with imitation() as server, opened() as supervisor:
        session = await supervisor.spawn(spec(model, server))
        assert (await session.ask("are the lamps on?")).text == "Both are on."
        assert (await session.ask("and now?")).text == "Still."
        asked, results = session.messages()[1], session.messages()[2:4]
        usage = session.status().usage
    assert isinstance(asked, AssistantMessage)
    assert asked.stop is StopReason.TOOL_CALLS
    assert [part.text for part in asked.parts if isinstance(part, Text)] == ["I look at both: süß 漢字 🙂."]
    assert [part.text for part in asked.parts if isinstance(part, Thinking)] == ["Two lamps are there."]
    assert [(call.name, dict(call.args)) for call in asked.calls] == [("lamp", {"room": "kitchen"}), ("lamps", {})]
    assert all(call.provider_id or model.startswith("gemini:") for call in asked.calls)  # which may give no ids
    assert [result.text for result in results if isinstance(result, ToolMessage)] == [
        "the lamp in the kitchen is on",
        "two",
    ]
    assert (usage.input_tokens, usage.output_tokens) == (100, 26)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("too much", "the provider's limit is reached: 429 rate_limit_error: slow down"),
        ("break off", "ended early|connection to the provider failed"),
        ("nobody knows this", "503"),
    ],
)
async def test_what_goes_wrong_is_told_by_class(model: str, text: str, error: str) -> None:
    async with imitation() as server, opened() as supervisor:
        session = await supervisor.spawn(spec(model, server))
        with pytest.raises(TurnAborted, match=error):
            await session.ask(text)

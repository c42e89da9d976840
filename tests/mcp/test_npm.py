"""Servers that everybody uses, from npm: `make mcp-servers` installs them."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from agentrail.events import ToolExecutionUpdate
from agentrail.mcp import McpServer
from agentrail.models import Image
from tests.mcp.rig import AT_ONCE, NO_EXTRA, Marked, asked, frozen, node_server, obedient, remote, until, use
from tests.patience import PATIENCE
from tests.runtime.world import World, open_world

pytest.importorskip("mcp", reason=NO_EXTRA)

EVERYTHING = node_server("everything")
FILES = node_server("filesystem")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        EVERYTHING is None or FILES is None, reason="the servers from npm are not installed: run `make mcp-servers`"
    ),
]

LONG = "everything__trigger-long-running-operation"


@pytest.fixture(params=["stdio", "http"])
async def everything(request: pytest.FixtureRequest, marked: Marked) -> AsyncIterator[McpServer]:
    assert EVERYTHING is not None
    if request.param == "stdio":
        yield marked.server(EVERYTHING, name="everything")
        return
    async with remote(*EVERYTHING, "streamableHttp", MARK=marked.mark) as started:
        yield McpServer(url=started.url, name="everything")


async def test_list_call_and_look(world: World, everything: McpServer) -> None:
    session = await world.spawn(obedient(), tools=[everything])
    assert {"everything__echo", "everything__get-sum", LONG} <= session.inspect().tools.keys()
    assert (await use(session, "everything__echo", message="hi")).text == "Echo: hi"
    assert (await use(session, "everything__get-sum", a=2, b=3)).text == "The sum of 2 and 3 is 5."
    parts = (await use(session, "everything__get-tiny-image")).parts
    assert [part.media_type for part in parts if isinstance(part, Image)] == ["image/png"]
    structured = await use(session, "everything__get-structured-content", location="New York")
    assert structured.details is not None
    assert set(structured.details) == {"structured"}


async def test_progress(world: World, everything: McpServer) -> None:
    session = await world.spawn(obedient(), tools=[everything])
    assert not (await use(session, LONG, duration=0.4, steps=4)).is_error
    await trio.testing.wait_all_tasks_blocked()
    updates = [event.update for event in world.heard(session).of(ToolExecutionUpdate)]
    assert updates[:3] == ["1 of 4", "2 of 4", "3 of 4"]


async def test_cancel(world: World, everything: McpServer, marked: Marked) -> None:
    session = await world.spawn(obedient(), tools=[everything])
    await session.prompt(asked(LONG, {"duration": 1000, "steps": 10_000}))
    await until(lambda: world.heard(session).of(ToolExecutionUpdate))
    with frozen(marked.only("server-everything")), trio.fail_after(AT_ONCE):
        await session.abort()
    assert (await use(session, "everything__echo", message="still here")).text == "Echo: still here"


async def test_killed_in_the_middle(world: World, marked: Marked) -> None:
    assert EVERYTHING is not None
    session = await world.spawn(obedient(), tools=[marked.server(EVERYTHING, name="everything")])
    await session.prompt(asked(LONG, {"duration": 1000, "steps": 10_000}))
    await until(lambda: world.heard(session).of(ToolExecutionUpdate))
    os.kill(marked.only("server-everything"), signal.SIGKILL)
    await until(lambda: session.status().phase == "idle", AT_ONCE)
    assert "gave no answer" in session.messages()[-2].text
    await until(lambda: not session.inspect().tools)
    await until(lambda: session.inspect().tools)
    assert (await use(session, "everything__echo", message="back")).text == "Echo: back"


async def test_nothing_is_left_behind_when_it_is_stopped_and_cannot_hear_of_it(marked: Marked) -> None:
    assert EVERYTHING is not None
    async with open_world() as world:
        session = await world.spawn(obedient(), tools=[marked.server(EVERYTHING, name="everything")])
        await session.prompt(asked(LONG, {"duration": 1000, "steps": 10_000}))
        await until(lambda: world.heard(session).of(ToolExecutionUpdate))
        os.kill(marked.only("server-everything"), signal.SIGSTOP)
        await session.stop()
        await until(lambda: marked.alive() == [], AT_ONCE)


async def test_files(world: World, marked: Marked, tmp_path: Path) -> None:
    assert FILES is not None
    server = marked.server((*FILES, str(tmp_path)), name="files", working_dir=str(tmp_path))
    session = await world.spawn(obedient(), tools=[server])
    note = str(tmp_path / "note.txt")
    assert not (await use(session, "files__write_file", path=note, content="tea at four")).is_error
    assert (tmp_path / "note.txt").read_text(encoding="utf-8") == "tea at four"
    assert (await use(session, "files__read_text_file", path=note)).text == "tea at four"
    assert (await use(session, "files__list_directory", path=str(tmp_path))).text == "[FILE] note.txt"
    outside = await use(session, "files__read_text_file", path="/etc/passwd")
    assert outside.is_error
    assert "denied" in outside.text


async def test_resources_prompts_and_a_question(world: World, everything: McpServer) -> None:
    session = await world.spawn(obedient(), tools=[everything])
    listed = (await use(session, "everything__list_resources")).text
    uri = listed.split(" - ", 1)[0]
    assert (await use(session, "everything__read_resource", uri=uri)).text.startswith(f"[{uri}]")
    prompts = [name for name in session.inspect().tools if name.startswith("everything__prompt_")]
    assert (await use(session, prompts[0])).text
    await until(lambda: "everything__trigger-elicitation-request" in session.inspect().tools)
    with trio.fail_after(PATIENCE):
        await session.ask(asked("everything__trigger-elicitation-request", {}))
    (question,) = session.status().held
    assert question.hint.startswith("The MCP server `everything` asks, for its tool `trigger-elicitation-request`:")
    with trio.fail_after(PATIENCE):
        await session.respond(question.id, "decline")
        await until(lambda: session.status().phase == "idle")
    assert "declined" in session.messages()[-2].text

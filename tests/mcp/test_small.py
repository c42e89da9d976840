"""A small server, over its pipes and over HTTP: what it offers, what it answers, and what becomes of it."""

import base64
import json
import os
import signal
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from agentrail.errors import SourceFailed
from agentrail.events import ToolAttached, ToolDetached, ToolExecutionUpdate, ToolsUpdated
from agentrail.mcp import McpServer
from agentrail.models import Image
from agentrail.tools import EffectClass
from tests.adapters.models.server import Asked, Play, refusing, serving
from tests.mcp.rig import (
    AT_ONCE,
    NO_EXTRA,
    SMALL,
    Forking,
    Marked,
    Remote,
    asked,
    frozen,
    obedient,
    remote,
    until,
    use,
)
from tests.patience import PATIENCE
from tests.runtime.world import World, open_world

connection = pytest.importorskip("agentrail.adapters.mcp.connection", reason=NO_EXTRA)

NAMES = ("add", "picture", "fail", "variable", "count", "wait", "seen", "crash", "freeze", "grow")
TOOLS = tuple(f"small__{name}" for name in NAMES)


@pytest.fixture
async def by_http(forking: Forking) -> AsyncIterator[Remote]:
    async with remote(*SMALL, "{port}", start=forking.start) as started:
        yield started


@pytest.fixture(params=["stdio", "http"])
async def small(request: pytest.FixtureRequest, marked: Marked, forking: Forking) -> AsyncIterator[McpServer]:
    if request.param == "stdio":
        yield marked.server(SMALL, name="small")
        return
    async with remote(*SMALL, "{port}", start=forking.start) as started:
        marked.forked.append(started.pid)
        yield McpServer(url=started.url, name="small")


@pytest.mark.long
async def test_its_tools_are_there_when_the_session_is(world: World, small: McpServer) -> None:
    session = await world.spawn(obedient(), tools=[small])
    tools = session.inspect().tools
    assert tuple(tools) == TOOLS
    spec = tools["small__add"].spec
    assert (spec.description, spec.timeout, spec.requires) == ("Add two numbers.", 60.0, frozenset({"mcp"}))
    assert {attached.spec.effect for attached in tools.values()} == {EffectClass.UNSAFE}
    await trio.testing.wait_all_tasks_blocked()
    assert world.heard(session).of(ToolsUpdated) == [ToolsUpdated(TOOLS, (), "small")]


@pytest.mark.long
async def test_what_it_answers_is_what_the_model_sees(world: World, small: McpServer) -> None:
    session = await world.spawn(obedient(), tools=[small])
    added = await use(session, "small__add", a=1, b=2)
    assert (added.text, added.is_error, added.details) == ("3", False, {"structured": {"result": 3}})
    assert (await use(session, "small__add", a=1)).text.startswith("the arguments do not fit `small__add`: `b`")
    failed = await use(session, "small__fail", why="no way")
    assert (failed.text, failed.is_error) == ("Error executing tool fail", True)
    (shown,) = (await use(session, "small__picture")).parts
    assert isinstance(shown, Image)
    assert (shown.media_type, base64.b64decode(shown.data)[:4]) == ("image/png", b"\x89PNG")


@pytest.mark.long
async def test_its_progress_is_told(world: World, small: McpServer) -> None:
    session = await world.spawn(obedient(), tools=[small])
    assert (await use(session, "small__count", to=3)).text == "counted to 3"
    await trio.testing.wait_all_tasks_blocked()
    updates = [event.update for event in world.heard(session).of(ToolExecutionUpdate)]
    assert updates == ["1 of 3: counting", "2 of 3: counting", "3 of 3: counting"]


@pytest.mark.long
async def test_a_call_that_is_cancelled_is_cancelled_at_the_server(
    world: World, small: McpServer, marked: Marked
) -> None:
    session = await world.spawn(obedient(), tools=[small])
    await session.prompt(asked("small__wait", {"seconds": 1000}))
    while (await use_beside(world, small)).count("waiting") != 1:  # noqa: ASYNC110 - only the server knows
        await trio.sleep(0.01)
    with frozen(marked.only("small.py")), trio.fail_after(AT_ONCE):
        await session.abort()
    with trio.fail_after(PATIENCE):
        while (await use(session, "small__seen")).text == "waiting":  # noqa: ASYNC110 - see above
            await trio.sleep(0.01)
    assert (await use(session, "small__add", a=2, b=2)).text == "4"


async def use_beside(world: World, small: McpServer) -> str:
    """Return what the server of the first session has seen, if a second one can know; else believe it."""
    if not small.url:
        return "waiting"
    beside = await world.spawn(obedient(), tools=[small])
    seen = (await use(beside, "small__seen")).text
    await beside.stop()
    return seen


@pytest.mark.long
async def test_a_new_tool_is_attached(world: World, small: McpServer) -> None:
    session = await world.spawn(obedient(), tools=[small])
    assert (await use(session, "small__grow")).text == "grown"
    await until(lambda: "small__later" in session.inspect().tools)
    assert (await use(session, "small__later")).text == "here I am"
    heard = world.heard(session)
    assert heard.of(ToolsUpdated)[1:] == [ToolsUpdated(("small__later",), (), "small")]
    assert [event.name for event in heard.of(ToolAttached)] == [*TOOLS, "small__later"]


@pytest.mark.long
async def test_a_server_that_dies_is_an_error_and_comes_back(world: World, marked: Marked) -> None:
    session = await world.spawn(obedient(), tools=[marked.server(SMALL, name="small")])
    crashed = await use(session, "small__crash")
    gone = "the MCP server `small` gave no answer to this call (it has ended); it is not known whether it took effect"
    assert (crashed.text, crashed.is_error) == (gone, True)
    await until(lambda: not session.inspect().tools)
    await until(lambda: tuple(session.inspect().tools) == TOOLS)
    assert (await use(session, "small__add", a=1, b=2)).text == "3"
    heard = world.heard(session)
    why = "McpFailed: the MCP server `small` is not there: it ended with code 3"
    assert heard.of(ToolsUpdated) == [
        ToolsUpdated(TOOLS, (), "small"),
        ToolsUpdated((), TOOLS, "small", (why,)),
        ToolsUpdated(TOOLS, (), "small"),
    ]
    assert [event.name for event in heard.of(ToolDetached)] == list(TOOLS)


@pytest.mark.campaign
@pytest.mark.long
async def test_a_server_that_is_killed_in_the_middle_of_a_call(world: World, marked: Marked) -> None:
    session = await world.spawn(obedient(), tools=[marked.server(SMALL, name="small")])
    await session.prompt(asked("small__wait", {"seconds": 1000}))
    await until(lambda: session.status().phase == "executing_tools")
    os.kill(marked.only("small.py"), signal.SIGKILL)
    await until(lambda: session.status().phase == "idle", AT_ONCE)
    assert "gave no answer" in session.messages()[-2].text
    await until(lambda: session.inspect().tools)


@pytest.mark.long
async def test_a_server_by_http_that_is_killed_comes_back(world: World, by_http: Remote) -> None:
    session = await world.spawn(obedient(), tools=[McpServer(url=by_http.url, name="small", timeout=5)])
    await session.prompt(asked("small__wait", {"seconds": 1000}))
    await until(lambda: session.status().phase == "executing_tools")
    by_http.kill()
    await until(lambda: session.status().phase == "idle")
    assert session.messages()[-2].text != "waited"
    await until(lambda: not session.inspect().tools)
    await by_http.start()
    await until(lambda: session.inspect().tools)
    assert (await use(session, "small__add", a=1, b=2)).text == "3"


def keeps_a_session(request: Asked) -> Play:
    """Answer as a server of an older protocol, which keeps a session for each client until that ends it."""
    if request.method != "POST":
        return refusing(200 if request.method == "DELETE" else 405, b"")
    told = request.json
    result: dict[str, object] = {"tools": []}
    if told["method"] == "initialize":
        info = {"name": "small", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif told["method"] != "tools/list":
        return refusing(202 if "id" not in told else 404, b"")
    body = json.dumps({"jsonrpc": "2.0", "id": told["id"], "result": result}).encode()
    return refusing(200, body, "mcp-session-id: of the client")


@pytest.mark.parametrize("end", ["stop", "leave"])
async def test_a_server_by_http_is_told_that_the_session_is_over(end: str) -> None:
    async with serving(keeps_a_session) as server:
        async with open_world() as world:
            session = await world.spawn(obedient(), tools=[McpServer(url=f"{server.url}/mcp", name="small")])
            assert "DELETE" not in [request.method for request in server.asked]
            if end == "stop":
                await session.stop()
        ends = [request.headers["mcp-session-id"] for request in server.asked if request.method == "DELETE"]
    assert ends == ["of the client"]


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.parametrize("end", ["stop", "leave"])
async def test_a_server_that_ignores_everything_leaves_nothing_behind(end: str, marked: Marked) -> None:
    async with open_world() as world:
        session = await world.spawn(obedient(), tools=[marked.server(SMALL, name="small")])
        await session.prompt(asked("small__freeze", {"sleep": f"sleep 9{os.getpid()}"}))
        await until(lambda: len(marked.named("sleep 9")) >= 4)
        if end == "stop":
            with trio.fail_after(AT_ONCE):
                await session.stop()
            await until(lambda: marked.alive() == [], AT_ONCE)
    assert marked.alive() == []


@pytest.mark.campaign
@pytest.mark.long
async def test_a_server_that_ignores_a_cancel_and_does_not_answer_is_started_again(
    world: World, marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 2.0)
    session = await world.spawn(obedient(), tools=[marked.server(SMALL, name="small")])
    await session.prompt(asked("small__freeze", {"sleep": f"sleep 8{os.getpid()}"}))
    await until(lambda: len(marked.named("sleep 8")) >= 4)
    await session.abort()
    await until(lambda: not marked.named("sleep 8"))
    await until(lambda: len(world.heard(session).of(ToolsUpdated)) >= 3)
    assert (await use(session, "small__add", a=1, b=2)).text == "3"


@pytest.mark.long
async def test_of_our_environment_it_gets_what_is_named(
    world: World, marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_KEY", "k-1")
    monkeypatch.setenv("OTHER_KEY", "k-2")
    session = await world.spawn(obedient(), tools=[marked.server(SMALL, name="small", inherit=["ACME_KEY"])])
    assert (await use(session, "small__variable", name="ACME_KEY")).text == "k-1"
    assert (await use(session, "small__variable", name="OTHER_KEY")).text == "(not set)"
    assert (await use(session, "small__variable", name="MARK")).text == marked.mark


@pytest.mark.long
async def test_hints_count_only_when_they_are_trusted(world: World, marked: Marked) -> None:
    session = await world.spawn(obedient(), tools=[marked.server(SMALL, name="small", trust_hints=True)])
    effects = {name: attached.spec.effect for name, attached in session.inspect().tools.items()}
    assert [name for name in effects if effects[name] is not EffectClass.UNSAFE] == ["small__add"]
    assert effects["small__add"] is EffectClass.PURE


@pytest.mark.campaign
@pytest.mark.long
async def test_two_servers_side_by_side(world: World, marked: Marked) -> None:
    servers = [marked.server(SMALL, name=name) for name in ("one", "two")]
    session = await world.spawn(obedient(), tools=servers)
    assert len(session.inspect().tools) == 2 * len(TOOLS)
    await use(session, "one__crash")
    assert (await use(session, "two__add", a=1, b=2)).text == "3"


@pytest.mark.campaign
@pytest.mark.long
async def test_it_joins_a_living_session_and_leaves_it(world: World, small: McpServer, marked: Marked) -> None:
    session = await world.spawn(obedient())
    await session.attach_tools(small)
    assert tuple(session.inspect().tools) == TOOLS
    assert (await use(session, "small__add", a=2, b=3)).text == "5"
    await session.detach_tools("small")
    assert tuple(session.inspect().tools) == ()
    if small.command:
        await until(lambda: not marked.alive())
    await session.attach_tools(small)
    assert (await use(session, "small__add", a=2, b=4)).text == "6"


@pytest.mark.long
@pytest.mark.parametrize("command", [("true",), ("no-such-program-anywhere",), ("sleep", "1000")])
async def test_a_server_that_does_not_start_does_not_join(
    world: World, marked: Marked, command: tuple[str, ...]
) -> None:
    session = await world.spawn(obedient())
    with trio.fail_after(PATIENCE), pytest.raises(SourceFailed, match="cannot attach the tools of `small`"):
        await session.attach_tools(marked.server(command, name="small", start_timeout=1.0))
    assert tuple(session.inspect().tools) == ()
    await until(lambda: not marked.alive())

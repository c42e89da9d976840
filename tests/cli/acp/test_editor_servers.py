"""MCP servers that an editor names: asked about once, and nothing runs before the answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest

from agentrail.cli.acp.server_requests import NO_SSE, OWN_SERVERS, servers_in
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.settings.default_agent import ASK_FIRST
from agentrail.cli.trust.editor_servers import EditorServer, EditorServers
from agentrail.plugins import HumanApproval
from tests.cli.acp.editor import Editor, Message, editor
from tests.kit import freeze_object
from tests.mcp.rig import LIBRARY

SHOP = Path(__file__).parents[2] / "mcp" / "shop.py"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def shop(folder: Path, form: str = "one") -> Message:
    """Return a server that says in a file that it has been started."""
    code = (
        f"import os, runpy; open(os.environ['STARTED'], 'a').write('{form} ');"
        f" runpy.run_path({str(SHOP)!r}, run_name='__main__')"
    )
    env = {"FORM": form, "NOTES": str(folder / "notes"), "STARTED": "started", "TOKEN": "s3cret"}
    pairs = [{"name": name, "value": value} for name, value in env.items()]
    return {"name": "my shop", "command": sys.executable, "args": ["-c", code], "env": pairs}


async def opened(connected: Editor, folder: Path, *servers: Message) -> str:
    result = await connected.call("session/new", cwd=str(folder), mcpServers=list(servers))
    return str(result["sessionId"])


async def tools_of(connected: Editor, session: str) -> tuple[str, ...]:
    return (await connected.supervisor.session(session).detail()).tools


def started(folder: Path) -> str:
    file = folder / "started"
    return file.read_text() if file.exists() else ""


@pytest.mark.long
async def test_a_server_is_asked_about_once_and_started_after_the_answer(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    folder = tmp_path / "p"
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await opened(connected, folder, shop(folder))
        prompt = connected.prompt(session, "Who are you?")
        request = await connected.request()
        text = str(request["params"])
        assert "MCP server my_shop" in text
        assert "TOKEN" in text
        assert started(folder) == ""
        assert not [tool for tool in await tools_of(connected, session) if "__" in tool]
        connected.choose(request, "allow_always")
        await connected.answer(prompt)
        assert started(folder) == "one "
        assert "my_shop__buy" in await tools_of(connected, session)
        # The same server in another session of the folder
        second = await opened(connected, folder, shop(folder))
        await connected.answer(connected.prompt(second, "Who are you?"))
        assert started(folder) == "one one "
        # The same name with another content
        connected.forget()
        third = await opened(connected, folder, shop(folder, "many"))
        prompt = connected.prompt(third, "Who are you?")
        request = await connected.request()
        connected.choose(request, "reject_once")
        await connected.answer(prompt)
        assert started(folder) == "one one "
        assert not [tool for tool in await tools_of(connected, third) if "__" in tool]


@pytest.mark.long
async def test_who_cancels_the_prompt_has_not_answered(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await opened(connected, tmp_path, shop(tmp_path))
        prompt = connected.prompt(session, "Who are you?")
        await connected.request()
        connected.tell("session/cancel", sessionId=session)
        assert (await connected.answer(prompt))["stopReason"] == "cancelled"
        assert started(tmp_path) == ""
        connected.prompt(session, "Who are you?")
        request = await connected.request()
        connected.tell("session/close", sessionId=session)
        del request
        await connected.call("session/close", sessionId=session)


@pytest.mark.long
async def test_a_server_that_cannot_be_used_is_told_and_holds_up_nothing(tmp_path: Path) -> None:
    broken: Message = {"name": "broken", "command": "/no/such/program", "args": [], "env": []}
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin(session={"notices": {}})
        session = await opened(
            connected, tmp_path, broken, {"name": "old", "type": "sse", "url": "http://x", "headers": []}
        )
        await connected.wait_for(lambda message: NO_SSE in str(message))
        prompt = connected.prompt(session, "Who are you?")
        connected.choose(await connected.request(), "allow_always")
        await connected.wait_for(lambda message: "broken: " in str(message) and "cannot run" in str(message))
        await connected.answer(prompt)


async def test_an_agent_of_a_file_has_servers_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("from agentrail import SessionSpec\n\nagent = SessionSpec(model='demo')\n")
    async with editor(tmp_path / "j.db", AgentSource("", str(file))) as connected:
        await connected.begin(session={"notices": {}})
        session = await opened(connected, tmp_path, shop(tmp_path))
        await connected.wait_for(lambda message: OWN_SERVERS in str(message))
        await connected.answer(connected.prompt(session, "Who are you?"))
        assert started(tmp_path) == ""


def test_their_tools_are_asked_about_as_those_that_write() -> None:
    asks = {mode: HumanApproval(tools=names).asks_about("shop__buy") for mode, names in ASK_FIRST.items()}
    assert asks == {"ask": True, "edits": True, "yes": False, "plan": True}


def test_what_is_stored_is_for_the_user_alone_and_counts_only_while_it_is_allowed(home: Path, tmp_path: Path) -> None:
    servers = EditorServers(str(tmp_path))
    server = EditorServer("shop", ("buy",), {"TOKEN": "s3cret"})
    servers.store(server)
    assert servers.allowed() == ()
    servers.allow(server, servers.surface_of(server))
    assert EditorServers(str(tmp_path)).allowed() == (server,)
    assert EditorServers(str(tmp_path / "other")).allowed() == ()
    (file,) = (home / "editor-servers").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert "s3cret" not in (home / "allowed").read_text()
    servers.store(server.but(command=("sell",)))
    assert servers.allowed() == ()


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({"name": "a b/c", "command": "x", "args": [], "env": []}, ""),
        ({"name": "x", "command": "x\0", "args": [], "env": []}, "NUL"),
        ({"name": "x", "command": "x", "args": [], "env": [{"name": "A B", "value": ""}]}, "x: "),
        ({"name": "x", "type": "http", "url": "file:///etc", "headers": []}, "must begin with `https://`"),
        ({"name": "x", "type": "acp", "serverId": "1"}, "there is no kind 'acp'"),
    ],
)
def test_what_an_editor_names_is_checked(server: dict[str, object], problem: str) -> None:
    named = servers_in(freeze_object(cast("dict[str, object]", {"mcpServers": [server]})))
    assert problem in "".join(named.problems)
    assert bool(named.servers) == (not problem)
    twice = servers_in(freeze_object({"mcpServers": [server, server]}))
    assert len(twice.servers) <= 1


@pytest.mark.long
async def test_the_prompts_of_a_server_are_commands_of_the_editor(tmp_path: Path) -> None:
    library: Message = {"name": "library", "command": sys.executable, "args": [LIBRARY[1]], "env": []}
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await opened(connected, tmp_path, library)
        prompt = connected.prompt(session, "Who are you?")
        connected.choose(await connected.request(), "allow_always")
        await connected.answer(prompt)
        offers = [update for update in connected.updates if update["sessionUpdate"] == "available_commands_update"]
        commands = cast("list[Message]", offers[-1]["availableCommands"])
        assert [command["name"] for command in commands] == ["compact", "library:review"]
        await connected.answer(connected.prompt(session, "/library:review tea"))
        messages = await connected.supervisor.session(session).messages()
    words = "Get a prompt by the tool `library__prompt_review`, with these arguments: tea. It is what I ask you to do."
    assert words in [message.text for message in messages]

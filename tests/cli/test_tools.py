from collections.abc import Mapping
from pathlib import Path

import pytest
import trio.testing

from agentrail import BlockTool, Context, HoldTool, SessionSpec, open_supervisor
from agentrail.cli.running.deciders import approve_all
from agentrail.cli.settings import default_agent
from agentrail.cli.settings.console_tools import demo_tools, remembering
from agentrail.cli.settings.default_agent import ASK_FIRST, MODES, Mode, spec_for
from agentrail.cli.settings.project_settings import read_settings
from agentrail.cli.trust.settings_code import with_settings
from agentrail.errors import SandboxMissing
from agentrail.journals import SqliteJournal
from agentrail.plugins import BeforeTool, HumanApproval, SecurityGuard
from agentrail.sandboxes import BubblewrapSandbox, LocalSandbox, MemorySandbox
from agentrail.testing import ScriptedModel, say
from agentrail.testing import call as call_of
from agentrail.tools import EffectClass, Ok, Tool, ToolContext, as_tool, ok, standard_tools
from agentrail.values.content import text_of
from tests.kit import freeze_object

TOOLS = {tool.spec.name: tool for tool in (*standard_tools(), *demo_tools())}


async def call(tool: Tool, **args: object) -> str:
    result = await tool.execute(freeze_object(args), ToolContext())
    assert isinstance(result, Ok)
    return text_of(result.content)


async def test_facts_are_remembered_by_each_tool_of_its_own() -> None:
    mine, other = remembering(), remembering()
    assert await call(mine, fact="tea") == "remembered (1 in all): tea"
    assert await call(mine, fact="milk") == "remembered (2 in all): tea; milk"
    assert await call(mine, fact="milk") == "remembered (2 in all): tea; milk"
    assert await call(other, fact="sugar") == "remembered (1 in all): sugar"


async def test_counting_takes_a_second_for_each_number(autojump_clock: trio.testing.MockClock) -> None:
    lines: list[tuple[float, str]] = []
    start = autojump_clock.current_time()
    ctx = ToolContext(report=lambda said: lines.append((autojump_clock.current_time() - start, said)))
    assert await TOOLS["count"].execute(freeze_object({"to": 3}), ctx) == ok("counted to 3")
    assert lines == [(0, "1 of 3"), (1, "2 of 3"), (2, "3 of 3")]


@pytest.mark.parametrize(
    ("mode", "unasked"), [("ask", set()), ("edits", {"write_file", "edit_file"}), ("yes", None), ("plan", set())]
)
def test_whatever_may_change_something_or_reaches_further_asks_first(
    tmp_path: Path, mode: Mode, unasked: set[str] | None
) -> None:
    spec: SessionSpec = spec_for("demo", tmp_path, mode)
    guard, approval = spec.plugins
    assert isinstance(guard, SecurityGuard)
    assert guard == SecurityGuard(blocked_paths=guard.blocked_paths, timeout=None)
    assert isinstance(approval, HumanApproval)
    tools = {tool.spec.name: tool.spec for tool in map(as_tool, spec.tools)}
    inward = {"shell_kill", "write_todos", "ask_user", "remember", "compact_conversation"}
    changing = {name for name, tool in tools.items() if tool.effect is not EffectClass.PURE} - inward
    outward = {name for name, tool in tools.items() if "network" in tool.requires}
    tool_names = set(approval.tools)
    assert (changing | outward) - tool_names == (changing | outward if unasked is None else unasked)
    assert approval.timeout is None
    if mode == "plan":
        assert changing <= {"web_fetch"}


async def test_the_guard_blocks_the_files_of_agentrail_wherever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AGENTRAIL_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    journal = SqliteJournal(tmp_path / "j.db")
    await journal.release(())
    guard = spec_for("demo", tmp_path).plugins[0]
    await journal.close()
    assert isinstance(guard, SecurityGuard)
    for path in ("AGENTRAIL_HOME/allowed", "XDG_RUNTIME_DIR/agentrail/x.sock.json", "j.db", "j.db-wal", "./x/../j.db"):
        for tool, args in (("read_file", {"path": path}), ("shell", {"command": f"cat {path}"})):
            ruling = guard.before_tool(BeforeTool(tool, args, "c1"), None, Context(working_dir=str(tmp_path)))
            assert isinstance(ruling, BlockTool), path


def test_commands_are_confined_to_the_folder_or_each_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default_agent, "confines", lambda: True)
    spec = spec_for("demo", tmp_path)
    assert isinstance(spec.sandbox, BubblewrapSandbox)
    monkeypatch.setattr(default_agent, "confines", lambda: False)
    spec = spec_for("demo", tmp_path)
    assert type(spec.sandbox) is LocalSandbox
    assert spec.sandbox.snapshots is not None
    assert spec.plugins[1] == HumanApproval(tools=ASK_FIRST["ask"], safe_commands=(), timeout=None)


NETWORKS: Mapping[str, tuple[object, str]] = {
    "none": (False, "commands have no network"),
    "outward": ("outward", "commands reach other machines over the network, and no port of this one"),
    "host": (True, "ports and abstract sockets of this machine included"),
}


class Made(MemorySandbox):
    """Stands for a `BubblewrapSandbox` that was made with some options."""

    def __init__(self, _root: Path, **options: object) -> None:
        super().__init__({})
        self.options: dict[str, object] = options


def network_of(spec: SessionSpec) -> object:
    assert isinstance(spec.sandbox, Made)
    return spec.sandbox.options["network"]


@pytest.mark.parametrize("network", NETWORKS)
def test_a_setting_says_what_commands_reach_and_each_question_tells_it(
    tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default_agent, "confines", lambda: True)
    monkeypatch.setattr(default_agent, "BubblewrapSandbox", Made)
    (tmp_path / "agentrail.toml").write_text(f'network = "{network}"')
    settings = read_settings(tmp_path)
    assert settings is not None
    assert [surface.name for surface in settings.surfaces] == (["network"] if network == "host" else [])
    spec = with_settings(spec_for("demo", tmp_path), settings)
    reached, reach = NETWORKS[network]
    assert network_of(spec) == reached
    (approval,) = [plugin for plugin in spec.plugins if isinstance(plugin, HumanApproval)]
    for tool, args, is_told in (("shell", {"command": "curl x"}, True), ("write_file", {"path": "x"}, False)):
        ruling = approval.before_tool(BeforeTool(tool, args, "c1"), None, Context(working_dir=str(tmp_path)))
        assert isinstance(ruling, HoldTool)
        assert (reach in ruling.hint) == is_told


@pytest.mark.parametrize("works", [True, False])
def test_without_a_setting_commands_reach_other_machines_alone_where_that_can_be(
    tmp_path: Path, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(_: str) -> str:
        if not works:
            raise SandboxMissing("slirp4netns or pasta", "it is not installed")
        return "/usr/bin/slirp4netns"

    monkeypatch.setattr(default_agent, "confines", lambda: True)
    monkeypatch.setattr(default_agent, "find_bwrap", lambda: "/usr/bin/bwrap")
    monkeypatch.setattr(default_agent, "check_outward", check)
    monkeypatch.setattr(default_agent, "BubblewrapSandbox", Made)
    assert network_of(spec_for("demo", tmp_path)) == ("outward" if works else True)


@pytest.mark.parametrize("mode", MODES[:3])
async def test_without_a_sandbox_each_command_is_asked_about_and_yes_approves_none(
    mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default_agent, "confines", lambda: False)
    model = ScriptedModel([say(calls=[call_of("shell", {"command": "true"})]), "done"])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec_for("demo", tmp_path, mode).but(model=model))
        (held,) = (await session.ask("work")).held
        assert "install bubblewrap (`apt install bubblewrap`)" in held.hint
        assert held.expires_at is None
        problem = await approve_all(session, (held,))
        assert problem is not None
        assert problem.startswith("`--yes` approves no command that nothing confines: no sandbox hides what is blocked")
        assert session.status().held == (held,)
        await session.approve(held, always=True)

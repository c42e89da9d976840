"""`agentrail tools`: which tools an agent has, their effects, and about which a person is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from agentrail.models import PROVIDERS
from tests.cli.calling import subcommand

main = subcommand("tools")

AGENT: Final = '''\
from agentrail import SessionSpec, tool
from agentrail.host import Profile
from agentrail.plugins import HumanApproval
from agentrail.tools import EffectClass


@tool(effect=EffectClass.PURE)
async def weather(city: str) -> str:
    """Tell the weather."""
    return "sunny"


@tool
async def deploy() -> str:
    """Put it \\x1b[2Jon the air."""
    return "done"


desk = SessionSpec(model="demo", tools=[weather, deploy], plugins=[HumanApproval(tools=("dep*",))])
built = Profile("built", lambda context: desk)
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an agent in a file, on a machine without keys and without a sandbox."""
    for provider in PROVIDERS.values():
        for key in provider.keys:
            monkeypatch.delenv(key, raising=False)
    monkeypatch.setattr("agentrail.cli.settings.default_agent.confines", lambda: False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(AGENT, encoding="utf-8")
    return tmp_path


def rows(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, dict[str, object]]:
    assert main([*argv, "--json"]) == 0
    values = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {row["name"]: row for row in values}


@pytest.mark.parametrize(
    ("mode", "asking"),
    [
        ((), {"write_file", "edit_file", "shell", "web_fetch", "web_search"}),
        (("--edits",), {"shell", "web_fetch", "web_search"}),
        (("--yes",), set()),
        (("--plan",), {"web_fetch", "web_search"}),
    ],
    ids=["ask", "edits", "yes", "plan"],
)
def test_a_mode_says_about_which_tools_a_person_is_asked(
    mode: tuple[str, ...], asking: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    tools = rows(capsys, *mode)
    assert {name for name, row in tools.items() if row["asks"] != "no"} == asking
    assert ("write_file" in tools) == (mode != ("--plan",))
    assert {tools["read_file"]["effect"], tools["web_fetch"]["effect"]} == {"pure"}


def test_where_commands_are_confined_those_that_read_pass(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrail.cli.settings.default_agent.confines", lambda: True)
    tools = rows(capsys)
    assert (tools["shell"]["asks"], tools["write_file"]["asks"]) == ("unless it reads", "yes")


@pytest.mark.long
def test_the_tools_of_a_file_with_the_first_line_of_what_they_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["app.py:desk"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "TOOL     EFFECT  ASKS  WHAT IT DOES",
        "weather  pure    no    Tell the weather.",
        "deploy   unsafe  yes   Put it \ufffd[2Jon the air.",
    ]


def test_other_guards_and_sub_agents_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "\nSub-agents have tools of their own: explorer.\n" in out
    assert "\nBeside ASKS, these plugins may stop a call or ask about it: SecurityGuard.\n" in out


def test_one_tool_is_shown_with_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["app.py:desk", "--tool", "weather"]) == 0
    head, _, description, _, schema = capsys.readouterr().out.splitlines()
    assert head == "weather: pure, asks: no, at most 60 seconds a call"
    assert description == "Tell the weather."
    assert json.loads(schema)["required"] == ["city"]
    assert list(rows(capsys, "app.py:desk", "--tool", "deploy")) == ["deploy"]


HANDING: Final = '''\
from agentrail import SessionSpec, tool
from agentrail.plugins import HumanApproval


@tool(effect="pure")
async def search(words: str) -> str:
    """Search pages."""
    return ""


@tool(effect="pure", name="search")
async def search_bills(words: str) -> str:
    """Search bills."""
    return ""


@tool
async def pay_back(order: int) -> str:
    """Pay back."""
    return ""


billing = SessionSpec(name="billing", description="Pays.", tools=[search_bills, pay_back], handoffs=["front"])
front = SessionSpec(
    model="demo",
    name="front",
    description="Asks.",
    tools=[search],
    handoffs=[billing],
    plugins=[HumanApproval(tools=("pay_back", "transfer_to_billing"))],
)
'''


def test_the_tools_of_each_agent_are_listed_if_a_session_can_be_handed_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "app.py").write_text(HANDING, encoding="utf-8")
    assert main(["app.py:front"]) == 0
    assert [line.split("  Hand")[0].rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "AGENT    TOOL                 EFFECT  ASKS  WHAT IT DOES",
        "front    search               pure    no    Search pages.",
        "front    transfer_to_billing  pure    yes",
        "billing  search               pure    no    Search bills.",
        "billing  pay_back             unsafe  yes   Pay back.",
        "billing  transfer_to_front    pure    no",
    ]


def test_of_two_tools_with_one_name_both_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "app.py").write_text(HANDING, encoding="utf-8")
    assert main(["app.py:front", "--tool", "search"]) == 0
    out = capsys.readouterr().out
    assert "search of front: pure" in out
    assert "search of billing: pure" in out
    assert main(["app.py:front", "--tool", "search", "--json"]) == 0
    assert [json.loads(line)["agent"] for line in capsys.readouterr().out.splitlines()] == ["front", "billing"]


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("nowhere.py",), "there is no file 'nowhere.py'"),
        (("app.py:none",), "it has no `none` that is a Profile or SessionSpec"),
        (("app.py:built",), "app.py: its agent is built for each request by a function"),
        (("app.py", "--edits"), "--edits: 'app.py' says itself what its agent may do"),
        (("--dir", "nowhere"), "--dir: there is no folder 'nowhere'"),
        (("app.py:desk", "--tool", "wether"), "--tool: there is no tool `wether`; did you mean `weather`?"),
        (("--never",), "there is no option `--never`; `agentrail tools --help` lists those there are"),
    ],
    ids=["file", "name", "function", "mode", "folder", "tool", "option"],
)
def test_what_is_wrong_is_one_sentence(argv: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("agentrail: ")
    assert problem in captured.err

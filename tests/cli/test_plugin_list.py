"""`agentrail plugins`: the order of an agent's plugins, their hooks and options, and whether the order matters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.cli.calling import subcommand

main = subcommand("plugins")

AGENT: Final = '''\
from agentrail import BlockTool, Continue, Plugin, SessionSpec
from agentrail.plugins import HumanApproval, Keyed, SecurityGuard
from attrs import frozen


@frozen
class Later(Plugin[None]):
    """Ends each prompt with its word."""

    word: str

    def before_tool(self, hook, state, ctx):
        return BlockTool(self.word)

    def on_event(self, event, state, ctx):
        return state


guarded = SessionSpec(model="demo", plugins=[HumanApproval(timeout=5), SecurityGuard()])
equal = SessionSpec(model="demo", plugins=[Keyed("one", Later("no")), Keyed("two", Later("never"))])
single = SessionSpec(model="demo", plugins=[Later("\\x1b[2Jno")])
bare = SessionSpec(model="demo")
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(AGENT, encoding="utf-8")
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    assert main(argv) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.long
def test_plugins_are_listed_in_the_order_in_which_they_are_asked(capsys: pytest.CaptureFixture[str]) -> None:
    out = lines(capsys, "app.py:guarded")
    heads = [line.split(" (")[0] for line in out if line[:1].isdecimal()]
    assert heads == ["1. SecurityGuard", "2. HumanApproval"]
    assert "   timeout = 5" in out
    assert out[1] == "   hooks: before_tool"
    assert out[-2] == "  before_tool: SecurityGuard is asked before HumanApproval; their priorities settle it"


@pytest.mark.long
def test_of_two_that_have_one_priority_the_list_settles_it(capsys: pytest.CaptureFixture[str]) -> None:
    out = lines(capsys, "app.py:equal", "--examples", "40")
    assert "   hooks: before_tool, on_event" in out
    assert out[-2] == "  before_tool: one is asked before two; the order in `plugins=[…]` settles it"
    *_, order = lines(capsys, "app.py:equal", "--examples", "40", "--json")
    assert json.loads(order) == {"first": "one", "second": "two", "hook": "before_tool", "settled_by_priority": False}


@pytest.mark.long
def test_options_cannot_command_the_terminal_and_one_plugin_has_no_order(capsys: pytest.CaptureFixture[str]) -> None:
    *_, option, _, order = lines(capsys, "app.py:single")
    assert "\x1b" not in option
    assert order == "There is one plugin, so no order of two can matter."
    (row,) = map(json.loads, lines(capsys, "app.py:single", "--json"))
    assert (row["plugin"], row["hooks"]) == ("Later", ["before_tool", "on_event"])
    assert row["options"] == {"word": "\x1b[2Jno"}


@pytest.mark.long
def test_an_agent_without_plugins_and_an_order_that_is_not_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, "app.py:bare") == ["This agent has no plugins."]
    assert lines(capsys, "app.py:equal", "--examples", "0")[-1] == "Whether their order matters was not tried."


def test_what_is_no_number_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--examples", "many"]) == 2
    message = "agentrail: --examples: 'many' is no whole number from 0 on\n"
    assert capsys.readouterr().err == message

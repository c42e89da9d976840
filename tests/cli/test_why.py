"""`agentrail sessions why`: what a person is told about the decisions in a stored session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.journals import SqliteJournal
from agentrail.plugins import BeforeTool, BlockTool, Context, Continue, Plugin
from agentrail.testing import ScriptedModel, call, say
from tests.cli.calling import subcommand

main = subcommand("sessions why")


class Guard(Plugin[None]):
    """Blocks each call about a secret."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> BlockTool[None] | Continue[None]:
        return BlockTool("it is\x1b[2J a secret") if hook.args.get("name") == "secret" else Continue()


@tool
def look(name: str) -> str:
    """Look something up."""
    return name


async def _fill(path: Path) -> None:
    calls = [call("look", {"name": "secret"}), call("look", {"name": "rest"})]
    spec = SessionSpec(model=ScriptedModel([say(calls=calls), "So."]), tools=[look], plugins=[Guard()])
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
        await (await supervisor.spawn(spec, "trip")).ask("Look")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "j.db"
    trio.run(_fill, path)
    return path


def why(capsys: pytest.CaptureFixture[str], journal: Path, *argv: str) -> tuple[int, list[str], str]:
    """Return the exit status, the lines on standard output, and what went to standard error."""
    status = main([*argv, "--journal", str(journal)])
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err


def test_who_blocked_a_call_is_told(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, err = why(capsys, journal, "trip", "c3")
    assert (status, err) == (0, "")
    assert "`before_tool`: the call was blocked by `Guard`: it is\ufffd[2J a secret (a block ends the run" in lines[0]
    assert lines[1] == "    `Guard` blocked the call: it is\ufffd[2J a secret"
    assert lines[-1] == "so: look was blocked by Guard: it is\ufffd[2J a secret"


def test_a_turn_and_the_last_end_are_told(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, turn, _ = why(capsys, journal, "trip", "1")
    assert [line for line in turn if "blocked by Guard" in line]
    assert turn[-1] == "so: the turn ended: end"
    _, end, _ = why(capsys, journal, "trip")
    assert [line.partition("  ")[2] for line in end] == ["record 5: the turn ended: end"]


def test_each_thing_that_decided_is_a_line_of_json(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines, _ = why(capsys, journal, "trip", "c3", "--json")
    first, *_ = map(json.loads, lines)
    assert (first["hook"], first["rule"]) == ("before_tool", "block")
    assert [(step["plugin"], step["decided"]) for step in first["plugins"]] == [("Guard", True)]


def test_what_is_not_there_is_told_with_what_there_is(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, err = why(capsys, journal, "trip", "two")
    assert (status, lines) == (1, [])
    assert (
        err == "agentrail: there is no call `two` in these records; it has 1 turn, and its last calls are `c3`, `c4`\n"
    )
    status, _, err = why(capsys, journal, "tripp")
    assert (status, "did you mean `trip`" in err) == (1, True)
    assert why(capsys, journal.with_name("none.db"), "trip")[0] == 2

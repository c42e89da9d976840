"""`agentrail backtest`: other plugins on stored sessions, from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.cli.command import main
from agentrail.cli.session_names import id_of_chat
from agentrail.journals import SqliteJournal
from agentrail.plugins import BudgetGuard
from tests.what_if.stories import Closed, sessions_of

GUARDS = """\
from attrs import frozen

from agentrail import BlockTool, Continue, Plugin
from agentrail.plugins import BeforeTool, BudgetGuard, Context


@frozen
class Shut(Plugin[None]):
    path: str = "b"

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context):
        return BlockTool("shut") if hook.args.get("path") == self.path else Continue()


guards = [BudgetGuard(max_rounds=10), Shut()]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    async def make() -> None:
        journal = await sessions_of(
            [BudgetGuard(max_rounds=10)], [("look", "a"), ("look", "b")], count=2, journal=SqliteJournal("agents.db")
        )
        await cast("SqliteJournal", journal).close()

    monkeypatch.chdir(tmp_path)
    trio.run(make)
    (tmp_path / "mine.py").write_text(GUARDS)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        raise SystemExit(main(["backtest", *words]))
    captured = capsys.readouterr()
    return cast("int", left.value.code), captured.out, captured.err


@pytest.mark.long
@pytest.mark.usefixtures("folder")
def test_a_file_of_plugins_is_tried_on_a_journal(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "agents.db", "--plugins", "mine.py:guards", "--save-tests", "tests")
    assert status == 1
    assert ": 2 differ\n" in out
    assert "now:  the call was blocked by `Shut`: shut" in out
    assert sorted(file.name for file in Path("tests").iterdir()) == ["conftest.py", "test_s1_5.py", "test_s2_5.py"]
    words = [str(Path(sys.executable).with_name("pytest")), "-q", str(Path("tests").absolute())]
    (elsewhere := Path("elsewhere")).mkdir()
    tried = subprocess.run(words, cwd=elsewhere, check=False, capture_output=True, text=True)  # noqa: S603 - our own
    assert "2 passed" in tried.stdout, tried.stdout
    status, out, _ = run(capsys, "agents.db", "--plugins", "mine.py", "--session", "s1", "--json")
    assert [session["session"] for session in json.loads(out)["sessions"]] == ["s1"]


@pytest.mark.usefixtures("folder")
def test_options_are_tried_on_a_journal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "agents.db", "--options", '{"BudgetGuard": {"max_rounds": 9}}')[0] == 0
    Path("options.json").write_text('{"BudgetGuard": {"max_rounds": 1}}')
    assert run(capsys, "agents.db", "--options", "options.json")[0] == 1


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_test_of_no_session_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str], is_empty: bool) -> None:
    file = str(tmp_path / "agents.db")

    async def make() -> None:
        journal = await sessions_of([BudgetGuard(), Closed()], journal=SqliteJournal(file))
        if is_empty:
            await journal.delete("s1", "", 0)
        await cast("SqliteJournal", journal).close()

    trio.run(make)
    status, out, err = run(capsys, file, "--options", '{"BudgetGuard": {"max_rounds": 9}}')
    assert (status, err.splitlines()[-1]) == (1, "agentrail: no session was tested to its end")
    assert ("whose code is not here" in out) != is_empty


def test_a_session_of_chat_has_its_short_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def make() -> None:
        async with open_supervisor(journal=SqliteJournal(tmp_path / "chats.db")) as supervisor:
            await supervisor.spawn(SessionSpec(model="demo", plugins=[BudgetGuard(max_rounds=9)]), id_of_chat("trip"))

    trio.run(make)
    words = [str(tmp_path / "chats.db"), "--options", '{"BudgetGuard": {"max_rounds": 8}}', "--session"]
    status, out, _ = run(capsys, *words, "trip")
    assert status == 0
    assert out.startswith("1 session, ")
    assert ": 0 differ\n" in out
    assert run(capsys, *words, id_of_chat("trip"))[1] == out
    assert run(capsys, *words, "tirp")[2].endswith("chats.db; there are `trip`\n")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["agents.db"], "nothing is to differ: give --plugins, or --options"),
        (["agents.db", "--options", "[1]"], "--options [1]: it cannot be read"),
        (["agents.db", "--options", "{1}"], "it is no JSON"),
        (["agents.db", "--options", '{"a": 1}'], "it is not an object such as"),
        (["agents.db", "--options", '{"BudgetGuard": {"max_round": 1}}'], "did you mean `max_rounds`?"),
        (["agents.db", "--plugins", "mine.py:nothing"], "--plugins mine.py:nothing is no SessionSpec, no plugins"),
        (["nothing.db", "--plugins", "mine.py"], "there is no such file"),
    ],
)
def test_what_is_wrong_is_told(capsys: pytest.CaptureFixture[str], words: list[str], problem: str) -> None:
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert problem in err

"""What `agentrail evals` makes of its options, in the process of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.cli.command import main
from agentrail.evals import Case, Dataset, Results, ScoredRun
from agentrail.journals import SqliteJournal
from agentrail.testing import ScriptedModel

AGENT = """
from agentrail import SessionSpec
from agentrail.evals import Run, scorer
from agentrail.testing import ScriptedModel

clerk = SessionSpec(model=ScriptedModel(["We open at nine."], repeat_last=True))

@scorer
def is_short(run: Run) -> bool:
    return len(run.reply) < 20
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "evals_clerk.py").write_text(AGENT, encoding="utf-8")
    Dataset([Case("hours", ("When?",), expected="nine")]).write(tmp_path / "cases.jsonl")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_cases(*options: str) -> int:
    return main(["evals", "run", "cases.jsonl", "--agent", "evals_clerk.py", "--repeats", "1", *options])


def test_the_scorers_of_the_agents_file_are_all_unless_others_are_named(folder: Path) -> None:
    assert run_cases() == 0
    assert Results.read(folder / "cases.results.json").scorers == ("is_short",)
    assert run_cases("--score", "contains") == 0
    assert Results.read(folder / "cases.results.json").scorers == ("contains", "is_short")


def test_a_baseline_of_other_cases_is_told_before_anything_is_run(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Results("then", ("other",), ("is_short",), 1, (ScoredRun("other", 1, "s"),)).write(folder / "then.json")
    assert run_cases("--baseline", "then.json") == 2
    assert "--baseline has no case of these" in capfd.readouterr().err
    assert not (folder / "cases.results.json").exists()


def test_a_turn_is_added_once(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def talk() -> None:
        async with open_supervisor(journal=SqliteJournal(folder / "j.db")) as supervisor:
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["At nine."])), "talk")
            await session.ask("When?")

    trio.run(talk)
    add = ["evals", "add", "talk", "1", "--to", "real.jsonl", "--journal", "j.db"]
    assert main(add) == 0
    assert main(add) == 2
    assert "has the case of talk:1 already" in capfd.readouterr().err
    assert len(Dataset.read(folder / "real.jsonl")) == 1

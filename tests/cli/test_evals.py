"""`agentrail evals`: cases are run, compared and added, and what is done is kept."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentrail.evals import Dataset, Results
from tests.machinery.forked import run_forked

pytestmark = pytest.mark.long

AGENT = """
import os

import trio

from agentrail import SessionSpec
from agentrail.evals import Run, scorer
from agentrail.testing import say


class Clerk:
    name = "clerk"

    async def stream(self, request, emit):
        await trio.sleep(float(os.environ.get("TAKES", "0")))
        if "KILLED" in os.environ and os.path.exists("cases.results.json"):
            os.kill(os.getpid(), 9)
        return say(os.environ.get("SAYS", "We open at nine.")).response


clerk = SessionSpec(model=Clerk())


@scorer
def is_short(run: Run) -> bool:
    return len(run.reply) < 20
"""

CASES = "".join(f'{{"name": "hours-{n}", "prompts": ["When?"], "expected": "nine"}}\n' for n in range(8))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(AGENT)
    (tmp_path / "cases.jsonl").write_text(CASES)
    return tmp_path


def evals(folder: Path, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    done = run_forked(["evals", *words], env={**os.environ, **environment}, cwd=folder)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_worse_agent_fails_the_run_and_the_reports_say_so(folder: Path) -> None:
    words = ("run", "cases.jsonl", "--agent", "app.py", "--score", "contains", "--repeats", "2")
    first = evals(folder, *words, "--to", "main.json")
    assert (first.returncode, ["all", "1.00", "1.00"] in [line.split() for line in first.stdout.splitlines()]) == (
        0,
        True,
    )
    gate = ("--baseline", "main.json", "--fail-if", "worse", "--junit", "j.xml", "--markdown", "m.md")
    assert evals(folder, *words, *gate).returncode == 0
    worse = evals(folder, *words, *gate, SAYS="I do not know.")
    assert worse.returncode == 1
    assert "contains: worse: 1.00 → 0.00 in 8 cases" in worse.stdout
    assert 'failures="8"' in (folder / "j.xml").read_text()
    assert "worse" in (folder / "m.md").read_text()
    compared = evals(folder, "compare", "main.json", "cases.results.json", "--fail-if", "worse")
    assert (compared.returncode, compared.stderr) == (1, "")


def test_a_signal_keeps_what_is_done_and_resume_goes_on(folder: Path) -> None:
    words = ["run", "cases.jsonl", "--agent", "app.py", "--repeats", "5", "--at-once", "2"]
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "agentrail", "evals", *words],
        cwd=folder,
        env=os.environ | {"TAKES": "0.2"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    process.stderr.readline()  # the first run is done
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    kept = Results.read(folder / "cases.results.json")
    assert 0 < len(kept.runs) < 40
    assert kept.stopped == "interrupted"
    assert evals(folder, *words, "--resume").returncode == 0
    results = Results.read(folder / "cases.results.json")
    assert (results.missing, results.stopped, results.name) == (0, "", kept.name)
    assert {run.session for run in kept.runs} < {run.session for run in results.runs}


def test_what_was_done_before_the_process_was_killed_is_kept(folder: Path) -> None:
    words = ["run", "cases.jsonl", "--agent", "app.py", "--repeats", "5", "--at-once", "1"]
    target = folder / "cases.results.json"
    assert evals(folder, *words, TAKES="0.3", KILLED="once there is something").returncode == -9
    kept = Results.read(target)
    assert 0 < len(kept.runs) < 40
    assert evals(folder, *words, "--resume").returncode == 0
    results = Results.read(target)
    assert (results.missing, results.name) == (0, kept.name)
    assert {run.session for run in kept.runs} < {run.session for run in results.runs}


def test_a_baseline_of_other_cases_is_told_before_anything_is_spent(folder: Path) -> None:
    words = ("run", "cases.jsonl", "--agent", "app.py", "--repeats", "1")
    assert evals(folder, *words, "--to", "main.json").returncode == 0
    (folder / "cases.jsonl").write_text('{"name": "other", "prompts": ["When?"], "expected": "nine"}\n')
    ran = evals(folder, *words, "--baseline", "main.json")
    assert ran.returncode == 2
    assert (
        "--baseline has no case of these: it has hours-0, hours-1, hours-2, hours-3, hours-4, and not other"
        in ran.stderr
    )
    assert not (folder / "cases.results.json").exists()


def test_an_agent_that_fails_each_time_is_an_error_in_words(folder: Path) -> None:
    ran = evals(folder, "run", "cases.jsonl", "--agent", "app.py", TAKES="soon")
    assert ran.returncode == 1
    assert "came to an end; the first error: " in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_broken_line_is_wrong_usage(folder: Path) -> None:
    (folder / "cases.jsonl").write_text(CASES + "{\n")
    ran = evals(folder, "run", "cases.jsonl", "--agent", "app.py")
    assert ran.returncode == 2
    assert "cannot read the cases in cases.jsonl: line 9: " in ran.stderr


def test_a_turn_of_a_stored_session_becomes_a_case_that_runs(folder: Path) -> None:
    code = """
import trio
from agentrail import open_supervisor
from agentrail.journals import SqliteJournal
from app import clerk

async def main():
    journal = SqliteJournal("kept.db")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(clerk, "trip")
        await session.ask("Hello")
        await session.ask("When do you open?")
    await journal.close()

trio.run(main)
"""
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=60)  # noqa: S603
    (folder / "cases.jsonl").unlink()
    added = evals(folder, "add", "trip", "2", "--to", "cases.jsonl", "--journal", "kept.db")
    assert (added.returncode, added.stderr) == (0, "")
    (case,) = Dataset.read(folder / "cases.jsonl")
    assert (case.name, case.prompts, case.expected) == ("when-do-you-open", ("When do you open?",), "We open at nine.")
    ran = evals(folder, "run", "cases.jsonl", "--agent", "app.py", "--score", "exact", "--repeats", "2")
    assert ran.returncode == 0, ran
    assert Results.read(folder / "cases.results.json").mean("exact") == 1
    again = evals(folder, "add", "trip", "2", "--to", "cases.jsonl", "--journal", "kept.db")
    assert again.returncode == 2
    assert "cases.jsonl has the case of trip:2 already; remove its line to add it anew" in again.stderr
    named = evals(folder, "add", "trip", "1", "--to", "cases.jsonl", "--journal", "kept.db", "--name", case.name)
    assert (named.returncode, "another case has this name too" in named.stderr) == (2, True)
    missing = evals(folder, "add", "trip", "5", "--to", "cases.jsonl", "--journal", "kept.db")
    assert (missing.returncode, "the session has no turn 5; its last one is 2" in missing.stderr) == (2, True)
    assert "h.local" not in missing.stderr


TALK = """
import trio
from agentrail import SessionSpec, open_supervisor
from agentrail.journals import SqliteJournal
from agentrail.plugins import BudgetGuard, SecurityGuard
from app import clerk

async def main():
    journal = SqliteJournal("kept.db")
    async with open_supervisor(journal=journal) as supervisor:
        for name in ("3f2a9c01", "4b00d1e2"):
            spec = clerk.but(plugins=[SecurityGuard(), BudgetGuard(max_rounds=9)])
            session = await supervisor.spawn(spec, f"h.local.you.{name}")
            await session.label(add=["mine"])
            await session.ask("When do you open?")
            await session.ask("And on Sunday?")
    await journal.close()

trio.run(main)
"""


def test_turns_of_a_talk_become_cases_that_another_agent_plays(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", TALK], cwd=folder, check=True, timeout=60)  # noqa: S603
    (folder / "cases.jsonl").unlink()
    for session, turn in (("3f2a9c01", "1"), ("4b00d1e2", "1"), ("3f2a9c01", "2")):
        added = evals(folder, "add", session, turn, "--to", "cases.jsonl", "--journal", "kept.db")
        assert (added.returncode, added.stderr) == (0, "")
    first, second, third = Dataset.read(folder / "cases.jsonl")
    assert (first.name, second.name, third.name) == ("when-do-you-open", "when-do-you-open-2", "and-on-sunday")
    assert (first.past, second.past, third.source) == (None, None, "3f2a9c01:2")
    assert third.past is not None
    assert third.past.file == "and-on-sunday.past.jsonl"
    assert "h.local" not in (folder / "cases.jsonl").read_text()
    ran = evals(folder, "run", "cases.jsonl", "--agent", "app.py", "--score", "exact", "--repeats", "2")
    assert (ran.returncode, Results.read(folder / "cases.results.json").mean("exact")) == (0, 1)
    assert "and-on-sunday: its past has a state of the plugin `BudgetGuard`, which the agent lacks" in ran.stdout
    assert "SecurityGuard" not in ran.stdout

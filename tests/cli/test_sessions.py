"""`agentrail sessions`: what a person sees of a journal, and what may be done to it."""

from __future__ import annotations

import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.cli.command import main as command_main
from agentrail.cli.stored import stored_sessions
from agentrail.journals import MemoryJournal, SqliteJournal
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.cli.calling import subcommand

main = subcommand("sessions")

TITLE: Final = "A trip\x1b[2J to \u202eRome"


async def _fill(path: Path) -> None:
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
        trip = await supervisor.spawn(SessionSpec(model=ScriptedModel([say("Hel\x1b[1mlo.")])), "trip")
        await trip.ask("Hi")
        await trip.label(["work"], title=TITLE)
        other = await supervisor.spawn(
            SessionSpec(model=ScriptedModel([say(calls=[call("none", {})]), "So."])), "other"
        )
        await other.ask("Try it")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "j.db"
    trio.run(_fill, path)
    return path


def sessions(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    """Return the exit status, and what went to standard output and standard error."""
    status = main([str(word) for word in argv])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@tool
def deploy() -> str:
    """Deploy."""
    return "deployed"


def listed(capsys: pytest.CaptureFixture[str], journal: Path) -> list[str]:
    _, out, _ = sessions(capsys, "--json", "--journal", journal)
    return [json.loads(line)["session"] for line in out.splitlines()]


def test_all_are_listed_the_last_used_one_first(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = sessions(capsys, "--journal", journal)
    first, second = out.splitlines()
    assert (status, err) == (0, "2 sessions\n")
    assert first.split()[:2] == ["other", "idle"]
    assert second.split()[:2] == ["trip", "idle"]
    assert second.endswith("A trip\ufffd[2J to \ufffdRome")


async def _hold(path: Path) -> None:
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
        for name in ("held", "decided"):
            model = ScriptedModel([say(calls=[call("deploy", {})]), "So.", "And so on."])
            guard = HumanApproval(tools=["deploy"], timeout=None)
            session = await supervisor.spawn(SessionSpec(model=model, tools=[deploy], plugins=[guard]), name)
            reply = await session.ask("Deploy it")
            await session.label(["work"])  # its last record is not the one that holds the call
            if name == "decided":
                await session.approve(reply.held[0])
                await session.ask("And?")


def test_one_that_waits_for_a_person_is_not_said_to_be_idle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trio.run(_hold, tmp_path / "j.db")
    for options in ((), ("--limit", 5)):
        _, out, _ = sessions(capsys, "--journal", tmp_path / "j.db", *options)
        assert sorted(line.split()[:2] for line in out.splitlines()) == [["decided", "idle"], ["held", "waiting"]]
    _, out, _ = sessions(capsys, "--json", "--journal", tmp_path / "j.db")
    assert {json.loads(line)["session"]: json.loads(line)["condition"] for line in out.splitlines()} == {
        "held": "waiting",
        "decided": "idle",
    }


def test_one_with_an_impossible_time_hides_no_other(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(journal, isolation_level=None)) as db:
        db.execute("UPDATE session SET active = 1000000000000000000 WHERE id = CAST('trip' AS BLOB)")
    status, out, err = sessions(capsys, "--journal", journal)
    assert (status, [line.split()[0] for line in out.splitlines()], err) == (0, ["trip", "other"], "2 sessions\n")


def test_one_with_a_damaged_row_hides_no_other_and_can_be_deleted(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(journal, isolation_level=None)) as db:
        db.execute("UPDATE session SET active = x'01', head = 'text' WHERE id = CAST('trip' AS BLOB)")
    status, out, err = sessions(capsys, "--journal", journal)
    assert (status, err) == (0, "2 sessions\n")
    assert [line.split()[:2] for line in out.splitlines()] == [["other", "idle"], ["trip", "damaged"]]
    status, _, err = sessions(capsys, "show", "trip", "--journal", journal)
    assert (status, "`head` is no whole number" in err) == (1, True)
    assert sessions(capsys, "delete", "trip", "--yes", "--journal", journal) == (0, "", "trip is deleted\n")


def test_a_wrong_name_is_compared_with_those_that_were_used_last(
    journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "did you mean `trip`?" in sessions(capsys, "show", "tripp", "--journal", journal)[2]
    monkeypatch.setattr(stored_sessions, "MOST_COMPARED", 1)
    assert "did you mean `other`?" in sessions(capsys, "show", "othr", "--journal", journal)[2]
    assert "`agentrail sessions` lists those there are" in sessions(capsys, "show", "tripp", "--journal", journal)[2]


def test_only_those_with_a_label_are_listed(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = sessions(capsys, "list", "--label", "work", "--json", "--journal", journal)
    (row,) = map(json.loads, out.splitlines())
    assert (row["session"], row["condition"], row["title"], row["labels"]) == ("trip", "idle", TITLE, ["work"])
    _, out, _ = sessions(capsys, "--label", "work", "--limit", 1, "--json", "--journal", journal)
    assert [json.loads(line)["session"] for line in out.splitlines()] == ["trip"]  # another one was used last


def test_only_those_that_were_used_last_are_listed(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = sessions(capsys, "--limit", 1, "--journal", journal)
    assert (status, out.split()[0], err) == (0, "other", "1 session\n")


def test_a_session_is_shown_with_its_messages(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = sessions(capsys, "show", "other", "--journal", journal)
    assert status == 0
    assert out.startswith("other: (no title)\nidle, model scripted, 0 tokens, $0.0000, 4 records\n\nuser:\nTry it\n")
    assert "\n\ntool none:\n" in out
    assert out.endswith("\n\nassistant:\nSo.\n")
    _, out, _ = sessions(capsys, "show", "trip", "--messages", 1, "--journal", journal)
    assert out.endswith("records\n\nassistant:\nHel\ufffd[1mlo.\n")
    _, out, _ = sessions(capsys, "show", "trip", "--messages", 0, "--json", "--journal", journal)
    assert (json.loads(out)["title"], json.loads(out)["messages"]) == (TITLE, [])


def test_a_session_is_not_copied_into_the_journal_that_has_it(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = sessions(capsys, "copy", "trip", journal, "--journal", journal)
    assert (status, out) == (2, "")
    assert "are the same" in err


@pytest.mark.long
def test_a_session_is_moved_by_a_file_and_copied(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, new, copy = tmp_path / "trip.jsonl", tmp_path / "new.db", tmp_path / "copy.db"
    original = sessions(capsys, "show", "trip", "--json", "--journal", journal)
    assert sessions(capsys, "export", "trip", file, "--journal", journal)[0] == 0
    assert sessions(capsys, "import", file, "--journal", new)[0] == 0
    assert sessions(capsys, "copy", "trip", copy, "--journal", journal)[0] == 0
    for journal_ in (new, copy):
        assert listed(capsys, journal_) == ["trip"]
        assert sessions(capsys, "show", "trip", "--json", "--journal", journal_) == original
    for again in (("import", file, "--journal", new), ("copy", "trip", copy, "--journal", journal)):
        status, _, err = sessions(capsys, *again)
        assert (status, err.startswith("agentrail: the journal has a session `trip` already;")) == (1, True)


def test_a_file_is_overwritten_only_if_somebody_says_so(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    status, _, err = sessions(capsys, "export", "trip", file, "--journal", journal)
    assert (status, err) == (2, "agentrail: nobody can be asked whether it is to be overwritten; `--yes` says so\n")
    assert file.read_text() == "mine"
    assert sessions(capsys, "export", "trip", file, "--yes", "--journal", journal)[0] == 0
    assert file.read_text().startswith("{")


def test_a_session_is_deleted_only_if_somebody_says_so(
    journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    status, _, err = sessions(capsys, "delete", "trip", "--journal", journal)
    assert (status, err) == (2, "agentrail: nobody can be asked whether it is to be deleted; `--yes` says so\n")
    assert listed(capsys, journal) == ["other", "trip"]
    assert sessions(capsys, "delete", "trip", "--yes", "--journal", journal) == (0, "", "trip is deleted\n")
    assert listed(capsys, journal) == ["other"]


READER: Final = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("PRAGMA wal_autocheckpoint = 0")
file.execute("UPDATE about SET created = created + 1")  # so the title is in the log too
file.execute("BEGIN")
file.execute("SELECT * FROM session").fetchall()
print("reads", flush=True)
sys.stdin.read()
"""


@pytest.mark.long
def test_a_deletion_that_another_program_held_up_is_ended_by_the_same_command(
    journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrail.adapters.journals.sql.sql_journal.PATIENCE", 1)
    delete = ("delete", "trip", "--yes", "--journal", journal)
    command = [sys.executable, "-c", READER, str(journal)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:  # noqa: S603 - ours
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reads\n"
        status, _, err = sessions(capsys, *delete)
        assert (status, "close that program and delete again" in err) == (1, True)
        reader.kill()
    assert any(b"Rome" in file.read_bytes() for file in journal.parent.iterdir())
    status, _, err = sessions(capsys, *delete)
    assert (status, "there is no session `trip`" in err) == (1, True)
    assert not any(b"Rome" in file.read_bytes() for file in journal.parent.iterdir())


@pytest.mark.parametrize(
    "command", [("show",), ("export", "x.jsonl"), ("copy", "x.db"), ("fork",), ("delete", "--yes")]
)
def test_a_session_that_is_not_there_is_told_with_the_nearest(
    command: tuple[str, ...], journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(tmp_path / word) if "." in word else word for word in command[1:]]
    status, out, err = sessions(capsys, command[0], "tripp", *words, "--journal", journal)
    assert (status, out) == (1, "")
    assert err == f"agentrail: there is no session `tripp` in {journal} (did you mean `trip`?)\n"


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["shw"], "there is no subcommand `shw`; did you mean `show`?"),
        (["show"], "SESSION is missing; `agentrail sessions show --help` lists the options"),
        (["list", "x"], "got unexpected extra argument (x); `agentrail sessions list --help` lists the options"),
        (["--journl=x"], "there is no option `--journl`; did you mean `--journal`?"),
        (["list", "--at", "3"], "there is no option `--at`; `agentrail sessions list --help` lists those there are"),
        (["show", "x", "--messages", "-1"], "--messages: '-1' is no whole number from 0 on"),
        (["list", "--limit", "0"], "--limit: '0' is no whole number from 1 on"),
        (["fork", "x", "--at", "0"], "--at: '0' is no whole number from 1 on"),
        (
            ["list", "--journal", "--json"],
            "--journal needs a value, and `--json` is an option; `agentrail sessions list --help` lists the options",
        ),
    ],
)
def test_wrong_usage_is_one_sentence(argv: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sessions(capsys, *argv) == (2, "", f"agentrail: {problem}\n")


def test_a_journal_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.db"
    message = f"agentrail: there is no journal at {path}; `--journal FILE` names another\n"
    assert sessions(capsys, "--journal", path) == (2, "", message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_reader_that_leaves_has_it_end_quietly(journal: Path) -> None:
    command = [sys.executable, "-m", "agentrail", "sessions", "show", "other", "--journal", str(journal)]
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)  # noqa: S603 - ours
    os.close(write)
    assert (ran.returncode, ran.stderr) == (1, b"")


@pytest.mark.long
async def test_others_look_while_a_supervisor_has_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
        trip = await supervisor.spawn(SessionSpec(model=ScriptedModel(["Hello."])), "trip")
        await trip.ask("Hi")
        command = [sys.executable, "-m", "agentrail", "sessions", "show", "trip", "--journal", str(path)]
        ran = await trio.run_process(command, capture_stdout=True, capture_stderr=True)
        assert ran.stdout.endswith(b"assistant:\nHello.\n")
        deleting = [*command[:3], "sessions", "delete", "trip", "--yes", "--journal", str(path)]
        refused = await trio.run_process(deleting, capture_stdout=True, capture_stderr=True, check=False)
        assert refused.returncode == 1
        assert trip.status().phase == "idle"


NASTY: Final = "a\x1b]0;b\x07c\x9bd\u202ee\u2028f"
FORGED: Final = f"{NASTY}\nagentrail: all is well"
HARMFUL: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


async def _fill_nastily(path: Path) -> None:
    """Store a session whose id, model, title, labels, tool and texts would command a terminal."""
    model = ScriptedModel([say(NASTY, calls=[call(NASTY, {NASTY: NASTY})]), NASTY], name=NASTY)
    memory, journal = MemoryJournal(), SqliteJournal(path)
    async with open_supervisor(journal=memory) as supervisor:
        trip = await supervisor.spawn(SessionSpec(model=model, system=NASTY), "trip", title=NASTY, labels=[NASTY])
        await trip.ask(NASTY)
    first, *others = await memory.read("trip")
    assert first.opening is not None
    records = [first.but(opening=first.opening.but(session_id=FORGED)), *others]
    claim = await journal.claim(FORGED, "test")
    await journal.append(claim, 0, [record.but(session_id=FORGED) for record in records])
    await journal.close()


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "list"),
        ("sessions", "list", "--json"),
        ("sessions", "show", FORGED),
        ("sessions", "show", FORGED, "--json"),
        ("sessions", "show", f"{FORGED}?"),
        ("sessions", "export", FORGED, "{folder}/a.jsonl"),
        ("sessions", "import", "{folder}/a.jsonl"),
        ("sessions", "import", "{folder}/a.jsonl", "--journal", "{folder}/other.db"),
        ("sessions", "copy", FORGED, "{folder}/copy.db"),
        ("sessions", "fork", FORGED),
        ("sessions", "delete", FORGED, "--yes"),
        ("sessions", "why", FORGED),
        ("sessions", "why", FORGED, "--json"),
        ("sessions", "why", FORGED, f"{NASTY}?"),
        ("sessions", "seen", FORGED),
        ("sessions", "seen", FORGED, "--json"),
        ("sessions", "seen", FORGED, "99"),
        ("sessions", "replay", FORGED),
        ("sessions", "replay", FORGED, "--json"),
        ("sessions", "replay", FORGED, "2"),
    ],
    ids=lambda words: " ".join(word for word in words if word.isprintable()),
)
def test_what_a_session_has_stored_commands_no_terminal(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j.db"
    trio.run(_fill_nastily, path)
    journal_option = () if "--journal" in words else ("--journal", str(path))
    if words[1] == "import":
        command_main(["sessions", "export", FORGED, f"{tmp_path}/a.jsonl", "--journal", str(path)])
        capsys.readouterr()
    command_main([*(word.replace("{folder}", str(tmp_path)) for word in words), *journal_option])
    captured = capsys.readouterr()
    assert captured.out + captured.err
    assert not HARMFUL.findall(captured.out + captured.err)
    assert not [line for line in (captured.out + captured.err).splitlines() if line.startswith("agentrail: all is")]
    if words[:2] == ("sessions", "list") and "--json" in words:
        assert [json.loads(line)["session"] for line in captured.out.splitlines()] == [FORGED]

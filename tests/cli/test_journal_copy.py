"""`agentrail journal copy`: a journal is moved as a person does it, also by a process that is killed in between."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.journals import Journal, SqliteJournal
from agentrail.testing import ScriptedModel, say
from tests.cli.calling import subcommand
from tests.kit import opened

main = subcommand("journal")

LIMITED: Final = """
import resource, signal, sys
from agentrail.cli.command import main

signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the kernel kills the process at a byte of a file
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(main(sys.argv[2:]))
"""
"""A program that is killed when a file that it writes would become larger than its first argument."""


async def _fill(path: Path) -> None:
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
        for name in ("trip", "bill"):
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel([say("Hello.")])), name)
            await session.ask("Hi")
            await session.label(title=f"A {name}")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "j.db"
    trio.run(_fill, path)
    return path


def copy(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    """Return the exit status, and what went to standard output and standard error, without the progress."""
    status = main(["copy", *map(str, argv)])
    captured = capsys.readouterr()
    return status, captured.out, "".join(line for line in captured.err.splitlines(keepends=True) if "%  " not in line)


def listed(capsys: pytest.CaptureFixture[str], journal: Path) -> list[object]:
    subcommand("sessions")(["--json", "--journal", str(journal)])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_journal_is_copied_and_again(journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, new = tmp_path / "all.jsonl", tmp_path / "new.db"
    for source, target in ((journal, file), (file, new)):
        for written in (8, 0):
            status, out, err = copy(capsys, source, target)
            summary = f"2 of 2 sessions with 8 records are in {target}: {written} were written and read back\n"
            assert (status, out, err) == (0, "", summary)
    assert listed(capsys, new) == listed(capsys, journal)
    assert file.stat().st_mode & 0o777 == 0o600


def test_progress_is_shown(journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["copy", str(journal), str(tmp_path / "new.db")])
    assert "%  copy: 0 of 2 sessions\n" in capsys.readouterr().err


def test_what_did_not_fit_is_told(journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = tmp_path / "new.db"

    async def talk() -> None:
        target = SqliteJournal(new)
        await opened(target, "trip")
        await target.close()

    trio.run(talk)
    status, out, err = copy(capsys, journal, new)
    assert status == 1
    assert out == "trip: record 1 is there, and is another one; nothing of the session was changed\n"
    assert f"1 of 2 sessions with 4 records are in {new}: 4 were written and read back\n" in err
    assert "agentrail: not all is copied, see above;" in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("{0}", "{0}"), "are the same; give another one to copy to"),
        (("{0}.no", "{0}"), "there is no journal at {0}.no"),
        (("{0}",), "TO is missing; `agentrail journal copy --help` lists the options"),
        (("{0}", "{1}"), "it is not a database, but begins with b'mine'"),
        (("{1}", "{1}.db"), "it is not a database, but begins with b'mine'"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: tuple[str, ...], problem: str, journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    status, out, err = copy(capsys, *[word.format(journal, notes) for word in words])
    assert (status, out) != (0, "")
    assert problem.format(journal) in err
    assert notes.read_text() == "mine"


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["move", "a", "b"]) == 2
    assert "there is no subcommand `move`" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who has a journal")
def test_a_journal_in_use_is_copied_and_that_is_told(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new.db"
    holding = """
import sys
import trio
from agentrail.journals import Lease, SqliteJournal

async def main():
    journal = SqliteJournal(sys.argv[1])
    await journal.claim("other", "here", Lease(0, 10**15))
    print("held", flush=True)
    await trio.to_thread.run_sync(sys.stdin.read)
    await journal.close()

trio.run(main)
"""
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", holding, str(journal)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        status, out, err = copy(capsys, journal, new)
        holder.communicate()
    assert (status, out) == (1, "")
    assert f"{journal} is in use (here): what is written there from now on is not copied" in err
    assert copy(capsys, journal, new)[0] == 0


async def _fill_more(path: Path) -> None:
    journal = SqliteJournal(path, sync="normal")
    for number in range(30):
        await opened(journal, f"s{number}", 5 + 10 * number % 70)
    await journal.close()


async def _contents(*paths: Path) -> list[object]:
    contents: list[object] = []
    for path in paths:
        journal: Journal = SqliteJournal(path)
        listed = await journal.sessions()
        contents.append((listed, [await journal.read(stored.session_id) for stored in listed]))
        await journal.close()
    return contents


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the limit on files kills only there")
@pytest.mark.parametrize("name", ["new.db", "new.jsonl"])
def test_a_copy_that_is_killed_goes_on(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal, target, back = tmp_path / "j.db", tmp_path / name, tmp_path / "back.db"
    trio.run(_fill_more, journal)
    killed = 0
    for limit in (40_001, 90_017, 170_003, 230_011, 330_023):
        process = subprocess.run(  # noqa: S603
            [sys.executable, "-c", LIMITED, str(limit), "journal", "copy", str(journal), str(target)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode in {0, -signal.SIGXFSZ}, process.stderr
        killed += process.returncode != 0
    assert killed > 2
    assert copy(capsys, journal, target)[:2] == (0, "")
    if name.endswith(".jsonl"):
        assert copy(capsys, target, back)[0] == 0
        target = back
    of_journal, of_target = trio.run(_contents, journal, target)
    assert of_target == of_journal

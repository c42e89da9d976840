"""What works on Windows and macOS, as far as these can be simulated on Linux: see `docs/guide/platforms.md`."""

import json
import ntpath
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentrail.adapters.python_file import split_name
from tests.cli.talking import ENVIRONMENT, HERE, through_pipes
from tests.platforms.for_posix import FOR_POSIX, NOT_RUN
from tests.platforms.simulated import names_there

WINDOWS = (sys.executable, "-m", "tests.platforms.simulated", "win32")

OF_A_SYSTEM = re.compile(r"^ *(import|from) (os|resource|select|shutil|signal|socket|stat|subprocess)\b", re.MULTILINE)
"""In modules that use what differs between systems: mypy looks at these alone, which takes it a tenth of the time."""

PORTABLE = (
    "tests/adapters/journals/test_opening.py",
    "tests/adapters/journals/test_places.py",
    "tests/host/test_api_keys.py",
    "tests/sandboxes/test_paths.py",
    "tests/sandboxes/test_receiving.py",
)
"""Tests that also hold where Linux alone has something."""


def ran(*command: str, given: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own
        command, check=False, input=given, capture_output=True, text=True, cwd=HERE, env={**ENVIRONMENT, **environment}
    )


def test_typeshed_says_what_a_system_has() -> None:
    here = names_there("os", "linux")
    assert {"fork", "memfd_create", "O_NOFOLLOW"} <= here
    assert {"fork", "O_NOFOLLOW"} <= names_there("os", "darwin") - {"memfd_create"}
    assert not {"fork", "O_NOFOLLOW", "register_at_fork", "getuid"} & names_there("os", "win32")
    assert "SIGHUP" not in names_there("signal", "win32")


def test_a_drive_of_windows_is_part_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert split_name("app.py:desk") == ("app.py", "desk")
    monkeypatch.setattr(os.path, "splitdrive", ntpath.splitdrive)
    assert split_name("app.py:desk") == ("app.py", "desk")
    assert split_name(r"C:\project\app.py") == (r"C:\project\app.py", "")
    assert split_name(r"C:\project\app.py:desk") == (r"C:\project\app.py", "desk")


@pytest.mark.long
@pytest.mark.parametrize("system", ["win32", pytest.param("win32-nameless", marks=pytest.mark.campaign), "darwin"])
def test_all_is_imported_without_what_a_system_does_not_have(system: str) -> None:
    done = ran(sys.executable, "-m", "tests.platforms.simulated", system, "tests.platforms.imports")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.parametrize(("system", "lacking"), [("win32", FOR_POSIX | NOT_RUN), ("darwin", frozenset[str]())])
def test_no_name_is_used_that_a_system_does_not_have(system: str, lacking: frozenset[str], tmp_path: Path) -> None:
    files = [path for path in (HERE / "agentrail").rglob("*.py") if OF_A_SYSTEM.search(path.read_text("utf-8"))]
    files.append(HERE / "agentrail" / "ports" / "protocol_members.py")  # it tells what an `object` has
    options = ("--config-file=", "--follow-imports", "skip", "--cache-dir", str(tmp_path), "--platform", system)
    done = ran(sys.executable, "-m", "mypy", *options, *[str(file.relative_to(HERE)) for file in files])
    assert f"checked {len(files)} source files" in done.stdout, done.stdout + done.stderr
    errors = [line for line in done.stdout.splitlines() if line.endswith("[attr-defined]")]
    names = {error.partition(".py:")[0].replace("/", "."): error for error in errors}
    assert names.keys() <= lacking, [names[name] for name in names.keys() - lacking]
    assert ("agentrail.adapters.launcher" in names) == (system == "win32")


@pytest.mark.long
@pytest.mark.parametrize("system", ["win32", "win32-nameless"])
def test_the_library_and_the_host_work_where_windows_is_simulated(system: str) -> None:
    done = ran(*WINDOWS[:-1], system, "tests.platforms.scenes")
    assert done.returncode == 0, done.stderr
    assert "keys_are_made_and_withdrawn" in done.stdout


@pytest.mark.long
def test_tests_of_files_journals_and_keys_pass_where_macos_is_simulated() -> None:
    options = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    simulated = (sys.executable, "-m", "tests.platforms.simulated", "darwin", "pytest", *options, "-m", "not long")
    done = ran(*simulated, *PORTABLE)
    assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_a_prompt_is_answered_where_windows_is_simulated(tmp_path: Path) -> None:
    done = ran(*WINDOWS, "agentrail", "run", "Who are you?", AGENTRAIL_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("I am the built-in demo model")


@pytest.mark.long
def test_an_editor_is_answered_where_windows_is_simulated(tmp_path: Path) -> None:
    lines = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}},
    )
    given = "".join(f"{json.dumps(line)}\n" for line in lines)
    done = ran(*WINDOWS, "agentrail", "acp", "--model", "demo", given=given, AGENTRAIL_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    answers = {answer.get("id"): answer for answer in map(json.loads, done.stdout.splitlines())}
    assert answers[2]["result"]["sessionId"]


@pytest.mark.long
def test_the_doctor_says_what_is_not_there(tmp_path: Path) -> None:
    done = ran(*WINDOWS, "agentrail", "doctor", AGENTRAIL_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "no tools for the files and commands of this machine" in done.stdout
    assert "work in the Windows Subsystem for Linux" in done.stdout
    assert "no `termios`" in done.stdout
    assert "simulated on win32, and never tried there" in done.stdout


@pytest.mark.long
def test_terminals_share_a_session_where_windows_is_simulated(tmp_path: Path) -> None:
    args = ("agentrail", "chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with through_pipes(*args, command=WINDOWS) as first:
        first.wait_for("It has no tools for files and commands: on Windows")
        first.wait_for("goes on with it.\n\n")
        first.say("count to 3\n")
        first.wait_for("→ count to=3")
        with through_pipes(*args, "--continue", command=WINDOWS) as second:
            second.wait_for("> count to 3\n")
            os.kill(first.process.pid, 9)
            second.say("Who are you?\n")
            second.wait_for("there is no real language model")
            second.say("/quit\n")
            second.rest()
            assert second.code() == 0

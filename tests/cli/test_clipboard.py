"""Ctrl-V: the picture in the clipboard, by whatever program reads it here."""

import os
import sys
from pathlib import Path
from time import monotonic

import pytest

from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.talk import bounded_output
from agentrail.cli.talk.bounded_output import OutputError, output_of
from agentrail.cli.talk.clipboard import NO_PICTURE, NO_PROGRAM, OF_MACOS, clipboard_picture
from agentrail.cli.talk.named_files import MAX_PICTURE
from tests.cli.talking import at_a_terminal

pytestmark = pytest.mark.long

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
DISPLAYS = {"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of `PATH`, but for what scripts need."""
    (tmp_path / "png").write_bytes(PNG)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    (folder / name).chmod(0o700)


WL_PASTE = (
    'case "$*" in --list-types) echo "{}";; "--no-newline --type {}") cat "$(dirname "$0")/../png";; *) exit 9; esac'
)
XCLIP = (
    'case "$*" in *"-t TARGETS -o") echo "TIMESTAMP {}";; *"-t {} -o") cat "$(dirname "$0")/../png";; *) exit 9; esac'
)


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("wl-paste", WL_PASTE.format("text/plain image/bmp image/jpeg image/png", "image/png")),
        ("wl-paste", WL_PASTE.format("image/jpeg", "image/jpeg")),
        ("xclip", XCLIP.format("image/png", "image/png")),
    ],
)
def test_a_picture_is_read_by_the_program_that_is_there(programs: Path, name: str, script: str) -> None:
    program(programs, name, script)
    assert clipboard_picture(DISPLAYS.get) == PNG


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("pngpaste", 'test "$1" = - && cat "$(dirname "$0")/../png"'),
        ("osascript", 'printf "«data PNGf89504E470D0A1A0A%s»\\n" 3030303030303030303030303030303030303030'),
    ],
)
def test_programs_of_macos_print_it_in_ways_of_their_own(
    programs: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str
) -> None:
    program(programs, name, script)
    monkeypatch.setattr("agentrail.cli.talk.clipboard.READERS", OF_MACOS)
    assert clipboard_picture(lambda _: None) == PNG


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("", NO_PICTURE),
        ("exit 1", NO_PICTURE),
        (WL_PASTE.format("text/plain", "image/png"), NO_PICTURE),
        ("echo image/png", NO_PICTURE),  # which is no picture
        ("sleep 60", "wl-paste takes too long; drop a file onto the window instead"),
        (
            f'test "$1" = --list-types && echo image/png || head -c {MAX_PICTURE + 1} /dev/zero',
            "the picture in the clipboard has more than 8 MiB",
        ),
    ],
)
def test_a_clipboard_without_a_picture_is_told(
    programs: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    monkeypatch.setattr("agentrail.cli.talk.clipboard.SECONDS", 0.5 if "sleep" in script else 30.0)
    program(programs, "wl-paste", script)
    with pytest.raises(BadInputError) as caught:
        clipboard_picture(DISPLAYS.get)
    assert str(caught.value) == problem


def test_no_program_of_the_folder_and_none_without_a_display_is_started(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(programs, "wl-paste", 'touch "$(dirname "$0")/started"')
    monkeypatch.chdir(programs)
    for path, displays in ((str(programs), dict[str, str]()), (f".{os.pathsep}", DISPLAYS)):
        monkeypatch.setenv("PATH", path)
        with pytest.raises(BadInputError, match="no program on PATH reads pictures") as caught:
            clipboard_picture(displays.get)
        assert str(caught.value) == NO_PROGRAM
    assert not (programs / "started").exists()


def test_ctrl_v_names_the_picture_and_it_goes_with_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "png").write_bytes(PNG)
    program(tmp_path / "bin", "xclip", XCLIP.format("image/png", "image/png"))
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    with at_a_terminal("chat", "--samples", NO_COLOR="1", DISPLAY=":0", PATH=path) as (talk, _):
        talk.sees(">\n  idle")
        talk.say("what is \x16")
        talk.sees("> what is @clipboard-1.png\n")
        talk.say("?\r")
        talk.sees("> what is @clipboard-1.png ?\n", "  @clipboard-1.png image/png, 1 KiB\n")
        (tmp_path / "png").unlink()
        talk.say("\x16")
        talk.sees("  the clipboard has no picture; your terminal has a key of its own")


def test_a_program_that_reads_nothing_gets_no_terminal_and_leaves_nothing(tmp_path: Path) -> None:
    content = b"x" * 1_000_000
    assert output_of(["true"], content, seconds=30, most=10) == b""
    assert output_of(["cat"], content, seconds=30, most=2_000_000) == content
    assert output_of(["yes"], seconds=30, most=5) == b"y\ny\ny"
    assert output_of(["sh", "-c", "(: < /dev/tty) 2>/dev/null || echo none"], seconds=30, most=9) == b"none\n"
    assert output_of(["pwd"], seconds=30, most=999, folder=tmp_path) == f"{tmp_path}\n".encode()
    pid = tmp_path / "pid"
    with pytest.raises(OutputError, match="takes too long"):
        output_of(["sh", "-c", f"sleep 600 & echo $! > {pid}; wait"], seconds=0.5, most=9)
    wait_until_gone(int(pid.read_text()))


def wait_until_gone(pid: int) -> None:
    deadline = monotonic() + 30
    while Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        assert monotonic() < deadline


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["/no/such"], "cannot be started: No such file or directory"),
        (["a\0b"], "cannot be started: embedded null byte"),
        ([sys.executable, "-c", "import os, time; os.close(1); time.sleep(600)"], bounded_output.TOO_LONG),
        (["sh", "-c", "echo x; exit 3"], "ended with exit status 3"),
    ],
)
def test_a_program_that_does_not_end_well_has_no_output(command: list[str], problem: str) -> None:
    with pytest.raises(OutputError) as caught:
        output_of(command, seconds=2, most=10)
    assert str(caught.value) == problem

"""Ctrl-X Ctrl-E: the typed text in an editor of the person, which has the terminal meanwhile."""

import os
import re
import shlex
import signal
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.talk.live.external_editor import HOW_TO_SET, EditedText, ExternalEditor, editor_command
from tests.cli.talking import Talk, at_a_terminal, modes

pytestmark = pytest.mark.long

EDIT = "\x18\x05"
NOTES = 'ls -l "$1" > "$0.file"; ls -ld "$(dirname "$1")" > "$0.folder"; cp "$1" "$0.before"'
"""What an editor notes of its file: its mode, that of its folder, and its content."""


def editor(folder: Path, script: str) -> str:
    file = folder / "my editor"
    file.write_text(f"#!/bin/sh\n{NOTES}\n{script}\n")
    file.chmod(0o700)
    return f"{shlex.quote(str(file))}"


@contextmanager
def talking(folder: Path, **environment: str) -> Iterator[tuple[Talk, int]]:
    args = ("chat", "--model", "demo", "--dir", str(folder), "--journal", str(folder / "j.db"))
    home = {"AGENTRAIL_HOME": str(folder / "home"), "NO_COLOR": "1"}
    with at_a_terminal(*args, **home, **environment) as (talk, theirs):
        talk.sees(">\n  idle")
        yield talk, theirs


def left_behind(folder: Path) -> list[str]:
    return [path.name for path in (folder / "home").glob("edit-*")]


def test_the_typed_text_comes_back_from_the_editor_and_is_not_sent(tmp_path: Path) -> None:
    script = 'printf "%s\\n" "first line" "  second: ü" > "$1"'
    with talking(tmp_path, EDITOR="/no/such", VISUAL=editor(tmp_path, script)) as (talk, _):
        talk.say("begun")
        talk.sees("> begun")
        talk.say(f"{EDIT}\r")
        screen = talk.sees("> first line\n    second: ü\n  idle")
        assert "> begun" not in screen
        talk.press("\r")
        talk.sees("> first line\n    second: ü\n", "built-in demo model")
    name = tmp_path / "my editor"
    assert Path(f"{name}.before").read_text() == "begun"
    assert Path(f"{name}.file").read_text().startswith("-rw------- ")
    assert Path(f"{name}.folder").read_text().startswith("drwx------ ")
    assert left_behind(tmp_path) == []


def test_a_person_may_take_time_between_the_two_keys(tmp_path: Path) -> None:
    with talking(tmp_path, EDITOR=editor(tmp_path, 'echo changed >> "$1"')) as (talk, _):
        talk.say("ab\x01")
        talk.press("\x18")
        talk.press("\x05")
        talk.sees("> abchanged\n  idle")


def test_what_happens_meanwhile_is_shown_afterwards_and_keys_of_the_editor_stop_nothing(tmp_path: Path) -> None:
    for name in ("line", "editor"):
        os.mkfifo(tmp_path / name)
    script = 'printf "in the editor: "; read line < "$(dirname "$0")/editor"; echo $line'
    with talking(tmp_path, EDITOR=editor(tmp_path, script)) as (talk, _):
        talk.say("!read line < line; echo $line\r")
        talk.sees("s, Esc stops")
        talk.say(f"note{EDIT}")
        talk.wait_for("in the editor: ")
        talk.stop(signal.SIGINT)  # as by Ctrl-C in an editor that leaves the terminal as it is
        talk.stop(signal.SIGCONT)
        talk.resize(70, 20)
        (tmp_path / "line").write_text("all well\n")
        (tmp_path / "editor").write_text("nothing was drawn\n")
        assert talk.wait_for("nothing was drawn") == "nothing was drawn"
        assert "Ctrl-C" not in talk.sees("  all well\n> note\n  idle").partition("/help")[2]
        talk.press("\r")
        talk.sees("> note\n", "built-in demo model")


BADLY = "printf '\\033[?1049h\\033[41mx'; stty raw; "

ENDS = (
    (f'echo more >> "$1"; {BADLY} kill -9 $PPID', "begunmore", "was ended by signal 9; the text is what it had"),
    (f'echo more >> "$1"; {BADLY} exit 1', "begun", "ended with exit status 1, so the text is as it was before"),
    ('rm -r "$(dirname "$1")"', "begun", "the editor cannot be used: "),
    ("exit 0", "begun", "returned at once, and nothing was changed; one with a window of its own needs"),
)
"""What an editor does, what is typed then, and what the person is told."""


def test_the_terminal_is_as_it_was_however_an_editor_ends(tmp_path: Path) -> None:
    script = f'sh {shlex.quote(str(tmp_path / "script"))} "$1"; exit $?'
    with talking(tmp_path, VISUAL="", EDITOR=editor(tmp_path, script)) as (talk, theirs):
        old_modes = modes(theirs)
        for script, text, problem in ENDS:
            (tmp_path / "script").write_text(script)
            talk.say(f"begun{EDIT}")
            screen = talk.sees(" ".join(problem.split()[:3]), f"> {text}\n  idle")
            assert problem in " ".join(screen.split())
            assert modes(theirs) == old_modes
            talk.press("?")
            talk.sees(f"> {text}?\n  idle")
            talk.say("\x15")
            talk.sees(">\n  idle")
        assert talk.output.count("\x1b[?1049l") == 2, "where the editor may have left the other screen"
    assert left_behind(tmp_path) == []


def test_without_an_editor_a_row_says_what_to_set(tmp_path: Path) -> None:
    with talking(tmp_path) as (talk, _):
        talk.say(f"begun{EDIT}")
        talk.sees("  no editor is set; `export VISUAL=vim` before agentrail starts", "\n> begun\n  idle")


def test_an_editor_ends_with_the_conversation(tmp_path: Path) -> None:
    script = "trap '' TERM; echo in the editor; while :; do read line < /dev/tty; done"
    with talking(tmp_path, EDITOR=editor(tmp_path, script)) as (talk, theirs):
        talk.say(f"begun{EDIT}")
        talk.wait_for("in the editor")
        talk.stop(signal.SIGTERM)
        talk.sees("Bye.")
        assert talk.code() == 0
        flags = modes(theirs)[3]
        assert isinstance(flags, int)
        assert flags & termios.ICANON, "lines are read as before"
    assert left_behind(tmp_path) == []


def test_what_an_editor_returns_is_no_answer_to_a_question_that_came_meanwhile(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    script = f'printf y > "$1"; echo in the editor; read line < {shlex.quote(str(tmp_path / "gate"))}'
    with talking(tmp_path, EDITOR=editor(tmp_path, script)) as (talk, _):
        talk.say("write hello to a.txt\r")
        talk.say(EDIT)
        talk.wait_for("in the editor")
        talk.wait_for("\x07")  # the bell of a question
        (tmp_path / "gate").write_text("\n")
        talk.sees("write_file waits for your approval", "> y\n")
        talk.press("\r")
        talk.sees("not sent, for there is a question first: y")
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({"VISUAL": "code --wait", "EDITOR": "vim"}, ["code", "--wait"]),
        ({"VISUAL": " ", "EDITOR": "'/my editors/ed' -s"}, ["/my editors/ed", "-s"]),
    ],
)
def test_the_editor_is_what_the_environment_names(environment: Mapping[str, str], command: list[str]) -> None:
    assert editor_command(environment.get) == command


@pytest.mark.parametrize(
    ("environment", "problem"), [({}, HOW_TO_SET), ({"EDITOR": "vim '"}, "EDITOR=vim ': it is no command line")]
)
def test_an_environment_without_an_editor_is_told(environment: Mapping[str, str], problem: str) -> None:
    with pytest.raises(BadInputError, match=re.escape(problem)):
        editor_command(environment.get)


@pytest.mark.parametrize("text", ["", "no end", "an end\n", "two\n\n", "\udcff bytes", "\ud800", "\x1b[2J"])
def test_any_text_comes_back_as_it_was(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    assert ExternalEditor(["true"], 0, 1).edit(text).text == text


def test_what_cannot_be_started_or_taken_over_leaves_the_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    missing = ExternalEditor(["/no/such editor"], 0, 1).edit("text")
    assert missing == EditedText("text", "the editor cannot be used: /no/such editor: No such file or directory")
    large = ExternalEditor(["sh", "-c", 'head -c 1048577 /dev/zero > "$1"', "sh"], 0, 1).edit("text")
    assert large == EditedText(
        "text", "the text has more than 1024 KiB, and is as it was before; name a file by @ instead"
    )
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "file"))
    assert (
        ExternalEditor(["true"], 0, 1).edit("text").problem
        == f"the editor cannot be used: {tmp_path}/file: File exists"
    )

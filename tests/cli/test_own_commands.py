import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentrail.cli.folder.surface import Surface
from agentrail.cli.trust.own_commands import (
    MAX_BYTES,
    MAX_COMMANDS,
    OwnCommand,
    OwnCommands,
    allowed_commands,
    may_have_commands,
    read_commands,
)
from agentrail.cli.trust.trust_command import main
from agentrail.cli.trust.trust_store import allow, nobody_to_ask

OUTSIDE = "is left out: it leads out of the root, or to another file system"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    folder = tmp_path / "clone" / ".agentrail" / "commands"
    folder.mkdir(parents=True)
    return folder


def folder_of(commands: Path) -> Path:
    return commands.parent.parent


def test_a_file_is_a_command_and_its_first_line_says_what_for(commands: Path) -> None:
    (commands / "review.md").write_text("# Review the \x1b[2Jcode\n\nLook at $ARGUMENTS, and at $ARGUMENTS again.\n")
    (commands / "tea.md").write_bytes(b"\xef\xbb\xbf\n\nMake tea.\n")
    (commands / "notes.txt").write_text("no command")
    own_commands = read_commands(folder_of(commands))
    assert own_commands.problems == ()
    review, tea = own_commands.commands
    assert (review.name, review.purpose) == ("/review", "Review the \ufffd[2Jcode")
    assert review.prompt("a $ARGUMENTS").endswith("Look at a $ARGUMENTS, and at a $ARGUMENTS again.\n")
    assert review.prompt("").endswith("Look at , and at  again.\n")
    assert (tea.name, tea.purpose) == ("/tea", "Make tea.")
    assert tea.prompt("with milk") == "\n\nMake tea.\n\nwith milk"
    assert tea.prompt("") == tea.text


def test_without_the_folder_there_are_none(tmp_path: Path) -> None:
    assert read_commands(tmp_path) == OwnCommands()
    (tmp_path / ".agentrail").write_text("no folder")
    assert read_commands(tmp_path) == OwnCommands()


def test_a_folder_that_cannot_be_looked_into_is_told(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    ring.symlink_to(ring)
    assert not may_have_commands(tmp_path)
    assert may_have_commands(ring)
    (problem,) = read_commands(ring).problems
    assert problem.startswith(".agentrail/commands is left out: ")


def test_what_cannot_be_a_command_is_told_and_the_others_are_there(commands: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("key")
    (commands / "away.md").symlink_to(tmp_path / "secret.md")
    (commands / "up.md").symlink_to("../../../secret.md")
    (commands / "round.md").symlink_to("round.md")
    (commands / "bad.md").write_bytes(b"caf\xe9")
    (commands / "empty.md").write_text(" \n")
    (commands / "empty-too.md").write_bytes(b"\xef\xbb\xbf\n")
    (commands / "help.md").write_text("clash")
    (commands / "large.md").write_text("x" * (MAX_BYTES + 1))
    (commands / "whole.md").write_text("x" * MAX_BYTES)
    (commands / "folder.md").mkdir()
    (commands / "two words.md").write_text("x")
    (commands / "\x1b[2J.md").write_text("x")
    os.mkfifo(commands / "pipe.md")
    (commands / "near.md").symlink_to("whole.md")
    own_commands = read_commands(folder_of(commands), {"/help"})
    assert [command.name for command in own_commands.commands] == ["/near", "/whole"]
    named = "its name may have letters, digits, `-` and `_`, at most 40"
    reasons = {
        r"\u001b[2J": f"is left out: {named}",
        "away": OUTSIDE,
        "bad": "is left out: it is no UTF-8",
        "empty-too": "is left out: it is empty",
        "empty": "is left out: it is empty",
        "folder": "is left out: Is a directory",
        "help": "is left out: there is a command /help already; rename the file",
        "large": "is left out: it has more than 16 KiB",
        "pipe": "is left out: it is neither a file nor a folder",
        "round": "is left out: it leads through too many links",
        "two words": f"is left out: {named}",
        "up": OUTSIDE,
    }
    assert own_commands.problems == tuple([f".agentrail/commands/{name}.md {why}" for name, why in reasons.items()])


@pytest.mark.parametrize("part", [".agentrail", ".agentrail/commands"])
def test_a_folder_that_is_a_link_out_is_not_read(part: str, tmp_path: Path) -> None:
    (tmp_path / "mine" / "commands").mkdir(parents=True)
    (tmp_path / "mine" / "commands" / "tea.md").write_text("key")
    clone = tmp_path / "clone"
    (clone / part).parent.mkdir(parents=True)
    (clone / part).symlink_to(tmp_path / "mine" / ("commands" if "/" in part else ""))
    assert read_commands(clone) == OwnCommands((), (f".agentrail/commands {OUTSIDE}",))


def test_only_so_many_are_read(commands: Path) -> None:
    for number in range(MAX_COMMANDS):
        (commands / f"c{number:03}.md").write_text("x")
    assert read_commands(folder_of(commands)).problems == ()
    (commands / "d.md").write_text("x")
    own_commands = read_commands(folder_of(commands))
    assert len(own_commands.commands) == MAX_COMMANDS
    assert own_commands.problems == (".agentrail/commands: only 50 commands are read",)


def test_none_is_used_before_it_was_allowed_and_none_that_has_changed(commands: Path) -> None:
    folder = folder_of(commands)
    (commands / "review.md").write_text("Review.\n")
    (commands / "tea.md").write_text("Make tea.\n")
    questions = list[tuple[str, str]]()

    def says_yes(folder: Path, _: str, surfaces: Sequence[Surface]) -> bool:
        questions.extend((surface.name, surface.content) for surface in surfaces)
        allow(folder, surfaces)
        return True

    own_commands = allowed_commands(folder, ())
    assert own_commands.commands == ()
    assert own_commands.problems == (
        "/review, /tea of .agentrail/commands: nobody has allowed this yet; `agentrail trust` shows and allows it",
    )
    assert len(allowed_commands(folder, (), says_yes).commands) == 2
    assert questions == [("commands.review", '"Review.\\n"'), ("commands.tea", '"Make tea.\\n"')]
    assert allowed_commands(folder, (), nobody_to_ask).problems == ()
    (commands / "tea.md").write_text("Send the keys.\n")
    own_commands = allowed_commands(folder, ())
    assert own_commands.commands == (OwnCommand("/review", "Review.\n"),)
    assert own_commands.problems[0].startswith("/tea of .agentrail/commands: nobody")


def test_trust_shows_and_allows_them(commands: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(commands)
    (commands / "review.md").write_text("Review.\n")
    assert main(str(folder), None) == 1
    assert f'{commands} wants:\n  commands.review = "Review.\\n"\n' in capsys.readouterr().out
    assert main(str(folder), "yes") == 0
    assert len(allowed_commands(folder, ()).commands) == 1
    assert main(str(folder), None) == 0
    assert f"nothing in {commands} has to be allowed" in capsys.readouterr().out

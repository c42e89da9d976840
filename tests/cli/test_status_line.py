"""A row of the person's own below the typed text: the command that prints it, and the settings that name it."""

import json
from pathlib import Path

import pytest

from agentrail.adapters.user_folders import hidden_files
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.settings.project_settings import read_settings
from agentrail.cli.settings.user_settings import UserSettings, read_user_settings
from tests.cli.talking import at_a_terminal

SCRIPT = r"""#!/bin/sh
cat > "$0.facts"
pwd > "$0.folder"
(printf '\033]0;title\007' > /dev/tty) 2>/dev/null
printf '\033[2Jrow \342\200\256of my own\nsecond\n'
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("AGENTRAIL_HOME", str(folder))
    return folder


@pytest.mark.long
def test_the_first_row_of_the_command_is_shown_and_commands_no_terminal(home: Path) -> None:
    work = home.parent / "work"
    work.mkdir()
    script = home / "script"
    script.write_text(SCRIPT)
    script.chmod(0o700)
    (home / "settings.toml").write_text(f'status_line = "{script}"')
    args = ("chat", "--model", "demo", "--dir", str(work), "--journal", str(home.parent / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1", AGENTRAIL_HOME=str(home)) as (talk, _):
        talk.sees(">\n  idle")
        for count in range(1, 10):  # a machine that does much else may take longer than the command may
            talk.say("list the files\r")
            talk.sees(*["✓ list_dir", "answered: "] * count, ">\n  idle")
            if "\n\\u001b[2Jrow \\u202eof my own" in talk.seen():
                break
        talk.sees(">\n  idle", "\n\\u001b[2Jrow \\u202eof my own")
        assert "second" not in talk.seen()
        assert "]0;title" not in talk.output
        talk.say("/quit\r")
        talk.sees("Bye.")
    facts = json.loads(Path(f"{script}.facts").read_text())
    assert facts["folder"] == str(work)
    assert (facts["model"], facts["turns"] > 0, facts["waits_for_you"]) == ("demo", True, False)
    assert Path(f"{script}.folder").read_text() == f"{home}\n", "what an agent has written configures no tool there"


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "problem"),
    [("sleep 60", "takes too long (it may take 100 ms)"), ("echo no; exit 3", "ended with exit status 3")],
)
def test_a_command_that_fails_is_told_once_and_delays_nothing(home: Path, command: str, problem: str) -> None:
    (home / "settings.toml").write_text(f'status_line = "{command}"')
    with at_a_terminal("chat", "--samples", NO_COLOR="1", AGENTRAIL_HOME=str(home)) as (talk, _):
        talk.resize(200, 24)
        talk.sees(f"  the command of your status line, `{command}`, {problem}\n>\n  idle")
        for text in ("list the files", "read notes.txt"):
            talk.say(f"{text}\r")
            talk.sees(f"> {text}\n", "answered", ">\n  idle")
        assert talk.seen().count("status line") == 1


@pytest.mark.long
def test_settings_that_cannot_be_used_are_told_and_chat_goes_on(home: Path) -> None:
    (home / "settings.toml").write_text("status_lines = 'date'")
    with at_a_terminal("chat", "--samples", NO_COLOR="1", AGENTRAIL_HOME=str(home)) as (talk, _):
        talk.resize(200, 24)  # else where the line ends depends on the path of the folder
        talk.sees(".toml: there is no key `status_lines`;", ">\n  idle")


def test_settings_of_the_user_are_those_of_this_user_alone(home: Path) -> None:
    assert read_user_settings() == UserSettings()
    file = home / "settings.toml"
    file.write_text('status_line = " date "\n')
    file.chmod(0o644)
    assert read_user_settings() == UserSettings("date")
    assert file.stat().st_mode & 0o777 == 0o600, "others could read it, as after a restore"
    file.chmod(0o622)
    with pytest.raises(BadInputError, match="it is not of this user alone"):
        read_user_settings()


def test_a_link_to_dotfiles_is_followed_and_its_target_is_hidden_from_agents(home: Path) -> None:
    target = home.parent / "dotfiles.toml"
    target.write_text('status_line = "date"')
    target.chmod(0o600)
    (home / "settings.toml").symlink_to(target)
    assert read_user_settings() == UserSettings("date")
    assert str(target) in hidden_files()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("status_line = 5", "`status_line` is no text"),
        ("status_line =", "is no TOML"),
        ("model = 'x'", "there is no key `model`; there is `status_line`"),
        ("\x00\udcff", "is no TOML"),
    ],
)
def test_settings_of_the_user_that_are_wrong_are_told(home: Path, text: str, problem: str) -> None:
    (home / "settings.toml").write_text(text, errors="surrogateescape")
    (home / "settings.toml").chmod(0o600)
    with pytest.raises(BadInputError, match=problem):
        read_user_settings()


def test_no_folder_names_a_command(home: Path) -> None:
    (home.parent / "agentrail.toml").write_text('status_line = "date"')
    with pytest.raises(
        BadInputError, match=r"`status_line` is a setting of your own; write it into .*/home/settings.toml"
    ):
        read_settings(home.parent)

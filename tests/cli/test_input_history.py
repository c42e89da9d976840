"""What was typed before, for the arrow keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrail.cli.talk import input_history
from agentrail.cli.talk.input_history import LONGEST, NAME, InputHistory
from tests.cli.talking import at_a_terminal


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / NAME


def test_each_folder_has_its_own_texts(file: Path) -> None:
    InputHistory("/a").add("first\nwith \x1b and “two” lines")
    InputHistory("/b").add("elsewhere")
    InputHistory("/a").add("second")
    assert InputHistory("/a").texts() == ("first\nwith \x1b and “two” lines", "second")
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        " not this",
        "x" * (LONGEST + 1),
        "the key is sk-ant-api03-" + "aB3" * 20,
        "https://ada:pa55w0rd@example.com",
        "see @b\udcff.txt",
    ],
    ids=["empty", "blank", "space", "long", "key", "password", "not UTF-8"],
)
def test_what_is_not_to_be_kept_is_not(file: Path, text: str) -> None:
    InputHistory("/a").add(text)
    assert not file.exists()


def test_it_is_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_history, "MOST", 3)
    for number in range(7):
        InputHistory("/a").add(str(number))
    assert InputHistory("/a").texts() == ("4", "5", "6")
    assert len(file.read_text().splitlines()) == 3
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("a file")
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    InputHistory("/a").add("hello")
    assert InputHistory("/a").texts() == ()


@pytest.mark.parametrize("line", [b"", b"\xff", b"[", b"[1]", b'["/a"]', b'["/a", "x", "y"]', b'{"/a": 1}', b"null"])
def test_whatever_is_in_the_file_is_no_error(file: Path, line: bytes) -> None:
    InputHistory("/a").add("before")
    with file.open("ab") as history:
        history.write(line + b"\n")
    InputHistory("/a").add("after \u2028 it")
    assert InputHistory("/a").texts() == ("before", "after \u2028 it")


def test_a_link_of_the_user_is_followed_and_stays(tmp_path: Path, file: Path) -> None:
    target = tmp_path / "dotfiles-history"
    file.parent.mkdir(exist_ok=True)
    file.symlink_to(target)
    InputHistory("/a").add("hello")
    with target.open("a") as history:
        history.write('["/a", "more"]\n' * 3_000)
    assert InputHistory("/a").texts()[-1] == "more"
    assert file.is_symlink()
    assert len(target.read_text().splitlines()) == 1_000


@pytest.mark.long
def test_what_was_typed_is_fetched_after_a_restart(tmp_path: Path) -> None:
    args = ("chat", "--model", "demo", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"))
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.say("write hello to a.txt\r")
        talk.sees("[e]dit")
        talk.press("n")
        talk.sees("was not allowed", ">\n  idle")
        talk.say("/status\r")
        talk.sees("turns so far")
        talk.say("\x04")
        assert talk.code() == 0
    with at_a_terminal(*args, NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.say("\x1b[A\x1b[A")
        talk.sees("> write hello to a.txt\n  idle")

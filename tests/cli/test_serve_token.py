"""The token of `agentrail serve` stays the same for a folder, and is in no folder that an agent sees."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from agentrail.cli.command import main
from agentrail.cli.exit_codes import WRONG_USAGE
from agentrail.cli.host.serve_token import kept_token
from agentrail.errors import FileFailed
from tests.cli.calling import serve_options


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def served(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    return folder


def token_file(home: Path) -> Path:
    """The only file with a token."""
    (file,) = (home / "tokens").iterdir()
    return file


def test_each_start_in_a_folder_has_the_same_token(home: Path, served: Path, tmp_path: Path) -> None:
    token = kept_token(served)
    (tmp_path / "link").symlink_to(served)
    assert token == kept_token(served) == kept_token(tmp_path / "link")
    assert token is not None
    assert len(token) >= 32
    file = token_file(home)
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    assert token not in file.name
    assert not list(served.iterdir())
    assert kept_token(tmp_path) != token


@pytest.mark.usefixtures("home")
def test_two_that_start_at_once_have_the_same_token(served: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept_token(served)
    monkeypatch.setattr(Path, "exists", lambda _path: False)  # as if the other had made it after the look
    assert kept_token(served) == first
    assert token_file(home).read_text() == first


def test_a_token_that_others_could_read_is_not_used(home: Path, served: Path) -> None:
    kept_token(served)
    token_file(home).chmod(0o644)
    with pytest.raises(FileFailed, match="not of this user alone; delete it, and the next start makes a new one"):
        kept_token(served)


@pytest.mark.parametrize("text", ["", "short", "a b" * 10, "ä" * 20, "x" * 129])
def test_a_file_without_a_token_is_told(text: str, home: Path, served: Path) -> None:
    kept_token(served)
    token_file(home).write_text(text, encoding="utf-8")
    with pytest.raises(FileFailed, match="it has no token; delete it"):
        kept_token(served)


def test_without_a_folder_of_the_user_each_start_has_its_own(
    tmp_path: Path, served: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        assert kept_token(served) is None
    assert "new at each start, as it cannot be kept" in caplog.text


def test_a_token_may_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve_options([]).token is None
    assert serve_options(["--token", "x" * 16]).token == "x" * 16
    for arguments, problem in (
        (["--token", "x" * 15], "give 16 to 128 letters, digits"),
        (["--token", "secret word with blanks"], "give 16 to 128 letters, digits"),
        (["--token", "x" * 16, "--keys", "keys"], "--token is for this machine alone"),
    ):
        assert main(["serve", *arguments]) == WRONG_USAGE
        errors = capsys.readouterr().err
        assert problem in errors
        assert "secret word" not in errors

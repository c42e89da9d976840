"""The file with what a user has allowed: whose it has to be, what is read of it, and how it changes."""

import errno
import fcntl
import os
import re
import time
from pathlib import Path

import pytest

from agentrail.adapters import file_lock
from agentrail.adapters.file_lock import open_lock_file, try_lock_file
from agentrail.adapters.user_folders import hidden_in
from agentrail.cli.folder.surface import CodeFile, Surface
from agentrail.cli.trust.trust_store import allow, code_text, forget, is_shown_whole, unallowed, withdraw
from agentrail.errors import FileFailed

ONE, OTHER = Surface("mode", '"yes"'), Surface("system", '"Be quick"')


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "allowed"


ODD = {
    "circle": "look where it leads, and remove it",
    "link of another": "look where it leads, and remove it",
    "pipe": "no regular file",
    "folder": "no regular file",
    "written by others": "not of this user alone; delete it",
}
"""What may be in place of the file, with what is said about it."""


@pytest.mark.parametrize("kind", ODD)
def test_a_file_that_is_not_of_the_user_alone_allows_nothing(tmp_path: Path, file: Path, kind: str) -> None:
    allow(tmp_path, [ONE])
    rows = file.rename(tmp_path / "rows")
    match kind:
        case "circle":
            file.symlink_to(file)
        case "link of another":
            file.symlink_to(rows)
            if os.getuid():
                pytest.skip("NOT PROVED: only root makes a link of another user")
            os.lchown(file, 12345, 12345)
        case "pipe":
            os.mkfifo(file, 0o600)
        case "folder":
            file.mkdir()
        case _:
            rows.rename(file).chmod(0o620)
    with pytest.raises(FileFailed, match=f"cannot use `{file}`: .*{ODD[kind]}"):
        unallowed(tmp_path, [ONE])


def test_a_link_of_the_user_is_followed_and_stays(tmp_path: Path, file: Path) -> None:
    """So GNU Stow and others keep the files of a home in a folder of their own, which agents see no more of."""
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    file.parent.mkdir()
    (dotfiles / "second").symlink_to("rows")
    file.symlink_to("../dotfiles/second")  # of which the file is not there yet
    allow(tmp_path, [ONE, OTHER])
    assert unallowed(tmp_path, [ONE, OTHER]) == ()
    withdraw(tmp_path, [ONE])
    assert unallowed(tmp_path, [ONE, OTHER]) == (ONE,)
    assert (forget(tmp_path), file.is_symlink(), (dotfiles / "second").is_symlink()) == (1, True, True)
    assert str(dotfiles / "rows") in hidden_in(str(tmp_path))


def test_a_file_that_others_could_only_read_is_for_the_user_alone_from_then_on(tmp_path: Path, file: Path) -> None:
    allow(tmp_path, [ONE])
    file.chmod(0o644)
    assert unallowed(tmp_path, [ONE, OTHER]) == (OTHER,)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_folder_whose_links_lead_in_a_circle_is_one_of_its_name(tmp_path: Path, file: Path) -> None:
    (tmp_path / "round").symlink_to(tmp_path / "round")
    allow(tmp_path / "round", [ONE])
    assert unallowed(tmp_path / "round", [ONE, OTHER]) == (OTHER,)
    assert file.exists()


def test_a_row_that_a_full_disk_has_torn_spoils_no_other_one(tmp_path: Path, file: Path) -> None:
    allow(tmp_path, [ONE])
    file.write_bytes(file.read_bytes() + b"5a5a mode /\xc3")
    assert unallowed(tmp_path, [ONE, OTHER]) == (OTHER,)
    allow(tmp_path, [OTHER])
    assert unallowed(tmp_path, [ONE, OTHER]) == ()
    assert forget(tmp_path) == 2
    assert unallowed(tmp_path, [ONE, OTHER]) == (ONE, OTHER)


def locked_by_another(file: Path) -> int:
    lock = open_lock_file(file.with_name("allowed.lock"))
    assert try_lock_file(lock)
    return lock


def test_a_permission_that_another_process_takes_back_meanwhile_stays_so(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(tmp_path, [ONE, OTHER])
    row, _ = file.read_text().splitlines(keepends=True)
    lock = locked_by_another(file)

    def end_of_other(_seconds: float) -> None:
        file.write_text(row)
        os.close(lock)

    monkeypatch.setattr(time, "sleep", end_of_other)
    withdraw(tmp_path, [ONE])
    assert unallowed(tmp_path, [ONE, OTHER]) == (ONE, OTHER)


def test_whoever_changes_the_file_waits_for_another_process_and_who_reads_it_does_not(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lock, "LOCK_WITHIN", 0)
    allow(tmp_path, [ONE])
    lock = locked_by_another(file)
    for change in (lambda: allow(tmp_path, [OTHER]), lambda: withdraw(tmp_path, [ONE]), lambda: forget(tmp_path)):
        with pytest.raises(FileFailed, match=r"cannot lock `.*allowed\.lock`: .*has locked it"):
            change()
    assert forget(tmp_path / "elsewhere") == 0
    assert unallowed(tmp_path, [ONE, OTHER]) == (OTHER,)
    os.close(lock)


def test_a_home_whose_files_cannot_be_locked_is_told(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a folder of a network; the system says it of the lock, which is ours alone to ask for."""
    allow(tmp_path, [ONE])

    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    message = f"cannot lock `{file}.lock`: its file system has no locks (No locks available); let AGENTRAIL_HOME name"
    for change in (lambda: allow(tmp_path, [OTHER]), lambda: withdraw(tmp_path, [ONE]), lambda: forget(tmp_path)):
        with pytest.raises(FileFailed, match=re.escape(message)):
            change()
    assert unallowed(tmp_path, [ONE, OTHER]) == (OTHER,)


def test_a_home_that_cannot_be_written_is_told_to_who_allows_and_to_nobody_else(tmp_path: Path, file: Path) -> None:
    assert forget(tmp_path) == 0
    assert not file.parent.exists()
    file.parent.symlink_to("nowhere/home")
    assert unallowed(tmp_path, [ONE]) == (ONE,)
    with pytest.raises(FileFailed, match=f"cannot write `{file}`: .*; let AGENTRAIL_HOME name a folder of yours"):
        allow(tmp_path, [ONE])


def test_what_is_left_out_of_a_question_is_said_and_not_taken_for_whole() -> None:
    assert is_shown_whole([ONE, OTHER])
    for surfaces in ([Surface("system", "x" * 4000), OTHER], [Surface("x" * 101, "1")], [ONE] * 41):
        assert not is_shown_whole(surfaces)
    code = tuple(CodeFile(f"f{number}.py", "d") for number in range(22))
    assert code_text(Surface("plugins.1", "{}", code)).endswith("f19.py and 2 more")
    assert code_text(Surface("plugins.1", "{}", code[:20])).endswith("f19.py")


@pytest.mark.usefixtures("file")
def test_a_folder_is_forgotten_and_none_whose_path_ends_like_it(tmp_path: Path) -> None:
    other = Path(f"{tmp_path}{tmp_path}")
    allow(tmp_path, [ONE])
    allow(other, [ONE])
    assert forget(tmp_path) == 1
    assert (unallowed(tmp_path, [ONE]), unallowed(other, [ONE])) == ((ONE,), ())

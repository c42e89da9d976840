"""The file with what a user has allowed: whose it has to be, what is read of it, and how it changes."""

import os
from pathlib import Path

import pytest

from agentrail.cli.surface import Surface
from agentrail.cli.trust_store import allow, forget, unallowed
from agentrail.errors import FileFailed

ONE, OTHER = Surface("mode", '"yes"'), Surface("system", '"Be quick"')


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "allowed"


ODD = {
    "link": "look where it leads, and remove it",
    "pipe": "no regular file",
    "folder": "no regular file",
    "read by others": "not of this user alone; delete it",
    "written by others": "not of this user alone; delete it",
}
"""What may be in place of the file, with what is said about it."""


@pytest.mark.parametrize("kind", ODD)
def test_a_file_that_is_not_of_the_user_alone_allows_nothing(tmp_path: Path, file: Path, kind: str) -> None:
    allow(tmp_path, [ONE])
    rows = file.rename(tmp_path / "rows")
    match kind:
        case "link":
            file.symlink_to(rows)
        case "pipe":
            os.mkfifo(file, 0o600)
        case "folder":
            file.mkdir()
        case _:
            rows.rename(file).chmod(0o604 if kind == "read by others" else 0o620)
    with pytest.raises(FileFailed, match=f"cannot use `{file}`: .*{ODD[kind]}"):
        unallowed(tmp_path, [ONE])


def test_a_row_that_a_full_disk_has_torn_spoils_no_other_one(tmp_path: Path, file: Path) -> None:
    allow(tmp_path, [ONE])
    file.write_bytes(file.read_bytes() + b"5a5a mode /\xc3")
    assert unallowed(tmp_path, [ONE, OTHER]) == (OTHER,)
    allow(tmp_path, [OTHER])
    assert unallowed(tmp_path, [ONE, OTHER]) == ()
    assert forget(tmp_path) == 2
    assert unallowed(tmp_path, [ONE, OTHER]) == (ONE, OTHER)

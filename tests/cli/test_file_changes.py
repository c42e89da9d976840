"""What a held call would change in a file."""

from __future__ import annotations

import os
from pathlib import Path

from agentrail import HeldCall
from agentrail.cli.talk.file_changes import FileChanges
from agentrail.tools.builtin.file_changes import MOST_SHOWN, FileChange
from tests.cli.test_rendering import args


def call(tool: str, **given: object) -> HeldCall:
    return HeldCall("a1", "approval", "c1", tool, args(**given), "")


async def test_the_whole_texts_before_and_after_are_known(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    changes, path = FileChanges(tmp_path), str(tmp_path / "a.txt")
    assert await changes.of(call("write_file", path="a.txt", content="2\n")) == FileChange(path, "one\ntwo\n", "2\n")
    edit = call("edit_file", path="a.txt", old_text="two", new_text="2")
    assert await changes.of(edit) == FileChange(path, "one\ntwo\n", "one\n2\n")
    every = call("edit_file", path="a.txt", old_text="o", new_text="0", replace_all=True)
    assert await changes.of(every) == FileChange(path, "one\ntwo\n", "0ne\ntw0\n")


async def test_a_file_that_is_new_has_no_old_text(tmp_path: Path) -> None:
    new = call("write_file", path="new.txt", content="x")
    assert await FileChanges(tmp_path).of(new) == FileChange(str(tmp_path / "new.txt"), None, "x")


async def test_a_call_that_writes_no_file_has_no_change(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\none\n")
    changes = FileChanges(tmp_path)
    for other in (
        call("edit_file", path="new.txt", old_text="one", new_text="two"),
        call("read_file", path="a.txt"),
        call("write_file", path=3, content="x"),
        call("write_file", path="a.txt"),
    ):
        assert await changes.of(other) is None
    assert await FileChanges(None).of(call("write_file", path="a.txt", content="x")) is None


async def test_why_an_edit_changes_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\none\n")
    changes = FileChanges(tmp_path)
    twice = await changes.of(call("edit_file", path="a.txt", old_text="one", new_text="two"))
    assert twice == "a.txt has `old_text` 2 times, so this call changes nothing"
    missing = await changes.of(call("edit_file", path="a.txt", old_text="three", new_text="two"))
    assert missing == "a.txt does not have `old_text`, so this call changes nothing"


async def test_what_is_not_shown_is_told(tmp_path: Path) -> None:
    long = await FileChanges(tmp_path).of(call("write_file", path="new.txt", content="x" * (MOST_SHOWN + 1)))
    assert long == "new.txt would have more than 256 KiB, so what it has now is not shown"
    (tmp_path / "large.txt").write_bytes(b"x" * (MOST_SHOWN + 1))
    (tmp_path / "odd.bin").write_bytes(b"\xff\x00")
    (tmp_path / "out.txt").symlink_to("/etc/hostname")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    changes = FileChanges(tmp_path)
    for name, why in (
        ("large.txt", "has more than 256 KiB"),
        ("odd.bin", "is no text in UTF-8"),
        ("out.txt", "cannot be shown"),
        ("folder", "cannot be shown"),
        ("pipe", "cannot be shown"),
    ):
        change = await changes.of(call("write_file", path=name, content="x"))
        assert isinstance(change, str)
        assert name in change
        assert why in change

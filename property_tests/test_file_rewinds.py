"""Whatever an agent and a person do to files, in whatever order: a rewind loses no byte of the person."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from unittest import mock

import pytest
import trio
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from agentrail.adapters.sandboxes.kept_files import tree_scan
from agentrail.errors import FilesEdited
from agentrail.sandboxes import FileSpan, LocalSandbox, Snapshots
from tests.profiles import CAMPAIGN

SCRIPTS: Final = 10_000 if CAMPAIGN else 60
"""How many scripts of edits are tried."""

NAMES: Final = ("a", "a", "a", "b", "b", "d", "d/a", "d/b", "d/e/a", "x.log", ".env", "\u00e9 \n", "A")
TEXTS: Final = (b"", b"one\n", b"two\r\n", b"\xff\0", b"large" * 100)
MODES: Final = (0o644, 0o755, 0o600)
IGNORES: Final = (b"", b"*.log\n", b"a\n", b"d/\n", b"d/*\n!d/a\n", b"*\n")

Tree: TypeAlias = dict[str, tuple[str, bytes, int]]
"""All files of a folder: the kind, the content and the rights of each, by path."""


class Edit(NamedTuple):
    """One thing that is done to a file."""

    do: str
    name: str
    other: str
    text: bytes
    mode: int

    def carry_out(self, folder: Path) -> None:
        """Do it; what cannot be done, such as writing a file where a folder is, is not."""
        path, other = folder / self.name, folder / self.other
        with suppress(OSError):
            match self.do:
                case "write":
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(self.text)
                    path.chmod(self.mode)
                case "replace":  # as editors do
                    path.parent.mkdir(parents=True, exist_ok=True)
                    (folder / "saved~").write_bytes(self.text)
                    (folder / "saved~").replace(path)
                case "delete":
                    path.unlink()
                case "delete folder":
                    shutil.rmtree(path)
                case "rename":
                    path.rename(other)
                case "link":
                    path.symlink_to(self.other)
                case "hard link":
                    path.hardlink_to(other)
                case "rights":
                    path.chmod(self.mode)
                case "ignore":
                    (folder / ".gitignore").write_bytes(IGNORES[len(self.text) % len(IGNORES)])
                case _:  # a repository in the folder
                    (path / ".git").mkdir(parents=True)


EDITS: Final = st.builds(
    Edit,
    st.sampled_from(
        ["write"] * 4 + ["replace", "delete", "delete folder", "rename", "link", "hard link", "rights", "ignore", "git"]
    ),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from(TEXTS),
    st.sampled_from(MODES),
)
LEAVES_OUT: Final = frozenset({"hard link", "ignore", "git"})
"""What is done with files so that snapshots leave out some."""

STEPS: Final = st.lists(st.tuples(st.booleans(), st.lists(EDITS, min_size=1, max_size=4)), min_size=1, max_size=8)


def _written(name: str, text: bytes) -> list[Edit]:
    return [Edit("write", name, name, text, 0o644)]


PUT_BACK: Final = [
    (True, _written("b", b"one\n")),
    (False, _written("b", b"")),
    (True, _written("a", b"")),
    (False, _written("b", b"one\n")),
]
"""A person edits what the agent has made, and puts it back: nothing of theirs is in it, so it goes with the rest."""


def tree_of(folder: Path) -> Tree:
    """Return all files in *folder*, by other code than that of the snapshots."""
    tree: Tree = {}
    for top, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(top, name)
            status = path.lstat()
            key = str(path.relative_to(folder))
            if stat.S_ISLNK(status.st_mode):
                tree[key] = ("link", os.fsencode(path.readlink()), 0)
            elif stat.S_ISREG(status.st_mode):
                tree[key] = ("file", path.read_bytes(), stat.S_IMODE(status.st_mode))
    return tree


def changed(old: Tree, new: Tree) -> set[str]:
    """Return the paths that differ."""
    return {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}


class Story:
    """What an agent and a person have done to the files of one folder."""

    def __init__(self, folder: Path, snapshots: Snapshots) -> None:
        self.folder = folder
        self.snapshots = snapshots
        self.spans: list[FileSpan] = []
        self.of_person: set[str] = set()
        """Paths that the person was the last to change."""
        self.last: dict[str, tuple[str, bytes, int] | None] = {}
        """What each file that the agent has changed was after the last of these changes, by path."""
        self.former: dict[str, list[tuple[str, bytes, int] | None]] = {}
        """What each file that the agent has changed was before each of these changes, by path."""
        self.between: dict[str, tuple[str, bytes, int] | None] = {}
        """What a person had last made of a file between two changes of the agent, by path."""
        self.all_is_kept = True
        """Whether nothing was done that has snapshots leave out files."""

    async def work(self, edits: Sequence[Edit]) -> None:
        """Let the agent edit files."""
        old = tree_of(self.folder)
        before = await self.snapshots.take("s")
        for edit in edits:
            edit.carry_out(self.folder)
        after = await self.snapshots.take("s")
        self.spans.append(FileSpan(before.id, after.id))
        new = tree_of(self.folder)
        paths = changed(old, new)
        again = paths & self.last.keys()
        self.between |= {path: old.get(path) for path in again if old.get(path) != self.last[path]}
        self.last |= {path: new.get(path) for path in paths}
        for path in paths:
            self.former.setdefault(path, []).append(old.get(path))
        self._note(edits)
        self.of_person -= paths

    def edit(self, edits: Sequence[Edit]) -> None:
        """Let the person edit files."""
        old = tree_of(self.folder)
        for edit in edits:
            edit.carry_out(self.folder)
        new = tree_of(self.folder)
        self.of_person |= changed(old, new)
        self.of_person -= {path for path in self.of_person & self.last.keys() if new.get(path) == self.last[path]}
        self._note(edits)

    def _note(self, edits: Sequence[Edit]) -> None:
        odd = any(edit.do in LEAVES_OUT or edit.text == TEXTS[-1] or ".env" in edit.name + edit.other for edit in edits)
        self.all_is_kept = self.all_is_kept and not odd

    async def rewind(self, *, over_edits: bool) -> None:
        """Take back what the agent did, and look at all files."""
        old = tree_of(self.folder)
        preview = await self.snapshots.preview(self.spans, "s")
        assert tree_of(self.folder) == old
        if preview.edited and not over_edits:
            event("refused")
            with pytest.raises(FilesEdited, check=lambda error: error.paths == preview.edited):
                await self.snapshots.restore(self.spans, "s")
            assert tree_of(self.folder) == old
            restored = await self.snapshots.restore(self.spans, "s", [file.path for file in preview.files])
        else:
            restored = await self.snapshots.restore(self.spans, "s", over_edits=over_edits)
        new = tree_of(self.folder)
        paths = changed(old, new)
        event("something came back" if paths else "nothing came back")
        assert all(new.get(path) in self.former.get(path, ()) for path in paths)  # others are never touched
        if not over_edits:
            assert not paths & self.of_person & old.keys()
            assert all(self.between[path] in {None, new.get(path)} for path in paths & self.between.keys())
            assert {file.path for file in restored.files} == {file.path for file in preview.files}
        if self.all_is_kept:
            left = {file.path for file in restored.left_out} | set(() if over_edits else preview.edited)
            assert all(new.get(path) == states[0] for path, states in self.former.items() if path not in left)
        await self.snapshots.restore([restored.span], "s")
        undone = tree_of(self.folder)
        # a file of the agent may find something else at its path, which is then named
        assert all(undone.get(path) == state for path, state in old.items() if self.last.get(path) != state)
        if self.all_is_kept:  # else a file may stay that came back to where files are left out
            assert undone == old


def in_a_folder(act: Callable[[Path, Snapshots], None]) -> None:
    """Call *act* with an empty folder, and snapshots of it that keep small files alone."""
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(mock.patch.dict(os.environ, {"AGENTRAIL_HOME": str(top / "home")}))
        stack.enter_context(mock.patch.object(tree_scan, "MAX_BYTES", 400))
        (top / "work").mkdir()
        snapshots = LocalSandbox(top / "work", snapshots=True).snapshots
        assert snapshots is not None
        act(top / "work", snapshots)


@settings(max_examples=SCRIPTS)
@given(STEPS, st.booleans(), st.sampled_from(IGNORES))
@example(steps=PUT_BACK, over_edits=False, exclude=b"")
def test_a_rewind_loses_no_byte_of_a_person(
    steps: Sequence[tuple[bool, Sequence[Edit]]], over_edits: bool, exclude: bytes
) -> None:
    def act(folder: Path, snapshots: Snapshots) -> None:
        if exclude:
            (folder / ".git" / "info").mkdir(parents=True)
            (folder / ".git" / "info" / "exclude").write_bytes(exclude)
        story = Story(folder, snapshots)
        story.all_is_kept = not exclude

        async def play() -> None:
            for is_agent, edits in steps:
                if is_agent:
                    await story.work(edits)
                else:
                    story.edit(edits)
            await story.rewind(over_edits=over_edits)

        trio.run(play)

    in_a_folder(act)

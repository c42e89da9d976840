"""`KeptFiles`: the files of one snapshot, and how those of two differ, at a cost that grows with the difference."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from agentrail.adapters.sandboxes.kept_files.object_store import BLOB, FOLDER_MODE, ObjectStore, TreeEntry
from agentrail.values.rewinds import LeftOutFile

FILES: Final = b"files"
"""Name of the tree of all files in a snapshot."""

LEFT: Final = b"left"
"""Name of the list of what a snapshot leaves out, each as its reason, a tab, its path and a NUL."""

ABSENT: Final = None
"""Stands for a file that is not there."""


def path_text(path: bytes) -> str:
    """Return *path* as text for people and for JSON; bytes that are no UTF-8 are escaped."""
    return path.decode(errors="backslashreplace")


class KeptFiles:
    """The files of one snapshot."""

    __slots__ = ("__dict__", "_store", "_trees", "id")

    def __init__(self, store: ObjectStore, snapshot_id: str) -> None:
        self._store = store
        self.id = snapshot_id
        self._trees: dict[str, dict[bytes, TreeEntry]] = {}
        """The folders that were read, by digest."""

    @cached_property
    def _top(self) -> dict[bytes, TreeEntry]:
        return self._store.read_tree(self.id)

    @property
    def root(self) -> str:
        """Digest of the tree of all files."""
        return self._top[FILES].digest

    @cached_property
    def left_out(self) -> dict[bytes, str]:
        """Why what is left out is left out, by path; what is in such a folder is left out too."""
        rows = self._store.read(BLOB, self._top[LEFT].digest).split(b"\0")[:-1]
        return {path: why.decode() for why, _, path in (row.partition(b"\t") for row in rows)}

    def tree(self, digest: str) -> dict[bytes, TreeEntry]:
        """Return the entries of the folder *digest*."""
        if digest not in self._trees:
            self._trees[digest] = self._store.read_tree(digest)
        return self._trees[digest]

    def entry(self, path: bytes) -> TreeEntry | None:
        """Return the file, link or folder at *path*; `None` if there is none."""
        entry = TreeEntry(FOLDER_MODE, self.root)
        for name in path.split(b"/"):
            if entry.mode != FOLDER_MODE:
                return ABSENT
            below = self.tree(entry.digest).get(name)
            if below is None:
                return ABSENT
            entry = below
        return entry

    def why_left(self, path: bytes) -> str | None:
        """Return why *path*, or a folder above it, is left out; `None` if it is not."""
        parts = path.split(b"/")
        return next((why for end in range(len(parts)) if (why := self.left_out.get(b"/".join(parts[: end + 1])))), None)

    def files(self, folder: bytes, digest: str) -> Iterator[tuple[bytes, TreeEntry]]:
        """Yield all files and links in *folder*, whose tree is *digest*, with their paths."""
        for name, entry in self.tree(digest).items():
            path = folder + b"/" + name if folder else name
            if entry.mode == FOLDER_MODE:
                yield from self.files(path, entry.digest)
            else:
                yield path, entry


def differences(old: KeptFiles, new: KeptFiles) -> Iterator[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
    """Yield the path of each file that differs, with what it was in *old* and what it is in *new*."""
    yield from _in_folder(old, new, b"", old.root, new.root)


def _in_folder(
    old: KeptFiles, new: KeptFiles, folder: bytes, old_tree: str | None, new_tree: str | None
) -> Iterator[tuple[bytes, TreeEntry | None, TreeEntry | None]]:
    if old_tree == new_tree:
        return
    old_entries = {} if old_tree is None else old.tree(old_tree)
    new_entries = {} if new_tree is None else new.tree(new_tree)
    for name in sorted(old_entries.keys() | new_entries.keys()):
        was, now = old_entries.get(name), new_entries.get(name)
        if was == now:
            continue
        path = folder + b"/" + name if folder else name
        old_folder = was.digest if was is not None and was.mode == FOLDER_MODE else None
        new_folder = now.digest if now is not None and now.mode == FOLDER_MODE else None
        if old_folder is not None or new_folder is not None:
            yield from _in_folder(old, new, path, old_folder, new_folder)
        old_file, new_file = None if old_folder else was, None if new_folder else now
        if old_file != new_file:
            yield path, old_file, new_file


def write_snapshot(store: ObjectStore, files: str, left_out: dict[bytes, str]) -> str:
    """Keep a snapshot with the tree *files*, without what is *left_out*, and return its id."""
    rows = b"".join(b"%s\t%s\0" % (why.encode(), path) for path, why in sorted(left_out.items()))
    reasons = store.write(BLOB, rows)
    return store.write_tree({FILES: TreeEntry(FOLDER_MODE, files), LEFT: TreeEntry(b"100644", reasons)})


def list_left_out(left_out: dict[bytes, str], unnamed: frozenset[str], most: int) -> tuple[LeftOutFile, ...]:
    """Return the first *most* of what is *left_out* for a reason that is not in *unnamed*."""
    rows = [LeftOutFile(path_text(path), why) for path, why in sorted(left_out.items()) if why not in unnamed]
    return tuple(rows[:most])

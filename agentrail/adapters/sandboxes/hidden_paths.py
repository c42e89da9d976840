"""`HiddenPaths`: finds the files and folders that commands in a sandbox must not see; it looks before each command.

Patterns are those of `SecurityGuard`, and names are compared as there. A link is followed: what it leads to is hidden.
So are the other names of a file that is hidden (hard links). Folders called `.git` are left as they are, because git
needs them: what commits hold is not hidden.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from agentrail.adapters.user_folders import is_in
from agentrail.errors import CommandRefused
from agentrail.plugins.shell.paths import HERE, Fence, fold, is_wild, join, meets
from agentrail.values.value import Value

MAX_HIDDEN: Final = 500
"""The most paths that are hidden from one command; with more, no command is run."""

SETTLED_NS: Final = 1_000_000_000
"""Nanoseconds after which the time of a folder's last change differs from that of any later change."""

GIT: Final = ".git"


class FolderNames(Value, gc=True):
    """The names in a folder that a search for hidden paths needs."""

    state: tuple[int, int, int] = (0, 0, 0)
    """Device and inode of the folder, and when it was changed last, in nanoseconds since 1970."""
    folders: tuple[str, ...] = ()
    """Paths of the folders in it that are looked through, too."""
    hidden: tuple[str, ...] = ()
    """Paths in it that a pattern covers."""
    links: tuple[str, ...] = ()
    """Those of them that are links."""


class HiddenPaths:
    """Patterns of hidden paths, with what is known of the folders that were looked through."""

    __slots__ = ("_fence", "_folders", "_names", "_targets", "_wild", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._fence = Fence(self.patterns)
        self._names = frozenset(last for last in self._fence.lasts if not is_wild(last))
        self._wild = tuple(last for last in self._fence.lasts if is_wild(last))
        self._folders: dict[str, FolderNames] = {}
        """The folders that were looked through, by path: one that has not changed since is not read again."""
        self._targets: set[str] = set()
        """What links with hidden names led to. It stays hidden, also if a command has renamed the link."""

    def find(self, root: str, read_only: Iterable[str]) -> list[str]:
        """Return the hidden paths in *root* and in the folders *read_only*, with links resolved.

        Raise `CommandRefused` if there are more than `MAX_HIDDEN`.
        """
        places = (root, *read_only)
        folders = {folder: names for place in places for folder, names in self._walk(place, root)}
        self._folders = folders
        paths = {path for names in folders.values() for path in names.hidden}
        paths |= {os.path.realpath(pattern) for pattern in self.patterns if pattern.startswith("/")}
        self._targets |= {os.path.realpath(path) for names in folders.values() for path in names.links}
        paths |= self._targets
        paths |= set(_other_names(paths, folders))
        inside = {path for path in paths if not is_in(root, path) and any(is_in(path, place) for place in places)}
        existing = sorted(path for path in inside if os.path.exists(path) and not os.path.islink(path))  # noqa: PTH110, PTH114
        if len(existing) > MAX_HIDDEN:
            raise CommandRefused(
                f"more than {MAX_HIDDEN} files and folders in `{root}` would have to be hidden from it"
            )
        return existing

    def _walk(self, top: str, root: str) -> Iterator[tuple[str, FolderNames]]:
        folders = [top]
        while folders:
            folder = folders.pop()
            with suppress(FileNotFoundError, NotADirectoryError):
                try:
                    names = self._names_in(folder, root)
                except PermissionError:  # its owner, as whom commands run, can open it again
                    names = FolderNames(hidden=(folder,))
                yield folder, names
                folders += names.folders

    def _names_in(self, folder: str, root: str) -> FolderNames:
        status = os.lstat(folder)
        state = (status.st_dev, status.st_ino, status.st_ctime_ns)
        known_names = self._folders.get(folder)
        # A change right after the last one may have the same time, so names count only if that was long ago.
        if known_names is not None and known_names.state == state:
            return known_names
        is_settled = time.time_ns() - status.st_ctime_ns > SETTLED_NS
        with os.scandir(folder) as entries:
            listing = list(entries)
        hidden = [entry for entry in listing if self._is_hidden(entry.name, entry.path, root)]
        return FolderNames(
            state if is_settled else (0, 0, 0),
            tuple(
                entry.path
                for entry in listing
                if entry.is_dir(follow_symlinks=False) and entry.name != GIT and entry not in hidden
            ),
            tuple(entry.path for entry in hidden),
            tuple(entry.path for entry in hidden if entry.is_symlink()),
        )

    def _is_hidden(self, name: str, path: str, root: str) -> bool:
        folded = fold(name)
        if folded not in self._names and not any(meets(last, folded, hidden=True) for last in self._wild):
            return False
        return self._fence.find(join(HERE, path), within=join(HERE, root)) is not None


def _other_names(paths: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
    """Yield the paths in *folders* of files that one of *paths* names too."""
    inodes: set[tuple[int, int]] = set()
    for path in paths:
        with suppress(OSError):
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                inodes.add((status.st_dev, status.st_ino))
    for folder in folders if inodes else ():
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(folder) as entries:
            for entry in entries:
                if any(entry.inode() == inode for _, inode in inodes):
                    status = entry.stat(follow_symlinks=False)
                    if (status.st_dev, status.st_ino) in inodes:
                        yield entry.path

"""`HiddenPaths`: the files and folders that a sandbox hides, from its commands and from all that opens a file in it.

Patterns are those of `SecurityGuard`, and names are compared as there; one after a `!` is an exception. A link is
followed: what it leads to is hidden. So are the other names of a file that is hidden (hard links).

Commands see no hidden path: `find` looks for all of them before each command. Folders called `.git` are left as they
are, because git needs them: what commits hold is not hidden. A file that is opened is asked about by `covers`.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from agentrail.adapters.user_folders import is_in
from agentrail.errors import CommandRefused
from agentrail.plugins.shell.paths import Fence, ResolvedPath, before_wild, fold, is_wild, meets
from agentrail.values.value import Value

MAX_HIDDEN: Final = 500
"""The most paths that are hidden from one command; with more, no command is run."""

SETTLED_NS: Final = 1_000_000_000
"""Nanoseconds after which the time of a folder's last change differs from that of any later change."""

MAX_LOOKED: Final = 1_000
"""The most folders that are looked through for links and other names of hidden files, before a file is opened."""

LOOK_SECONDS: Final = 1.0
"""For so long that is not done again: a search opens thousands of files."""

LOOK_PART: Final = 10
"""Nor is it done for so many times as long as it took the last time: in a slow file system, work goes on meanwhile."""

MAX_INNER: Final = 1_000
"""The most files and links in one hidden folder whose other names and targets are looked for."""

SHOWN: Final = "!"
"""Begins a pattern of what is not hidden, although another pattern covers it."""

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
    """Patterns of hidden paths in one root, with what is known of the folders that were looked through."""

    __slots__ = (
        "_beginnings",
        "_fence",
        "_folders",
        "_inodes",
        "_lock",
        "_look_again_at",
        "_looked",
        "_names",
        "_shown",
        "_targets",
        "_wild",
        "patterns",
    )

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._fence = Fence([pattern for pattern in self.patterns if not pattern.startswith(SHOWN)])
        self._shown = Fence([pattern[1:] for pattern in self.patterns if pattern.startswith(SHOWN)])
        self._names = frozenset(last for last in self._fence.lasts if not is_wild(last))
        self._wild = tuple(last for last in self._fence.lasts if is_wild(last))
        self._beginnings = tuple(map(before_wild, self._wild))
        """What names begin with that a pattern in `_wild` may cover: most names do not, and are compared no further."""
        self._folders: dict[str, FolderNames] = {}
        """The folders that `find` has looked through, by path: one that has not changed since is not read again."""
        self._looked: dict[str, FolderNames] = {}
        """The same for `look_through`."""
        self._look_again_at = float("-inf")
        """From when on `look_through` looks again, by the clock of the machine."""
        self._targets: frozenset[str] = frozenset()
        """What links with hidden names led to. It stays hidden, also if a command has renamed the link."""
        self._inodes: frozenset[tuple[int, int]] = frozenset()
        """Device and inode of each hidden file that has several names."""
        self._lock = threading.Lock()
        """Held while folders are looked through: files are opened in several threads."""

    def covers(self, path: str, root: str) -> bool:
        """Whether the absolute *path*, which has no links, is hidden from who works in *root*.

        What covers the root itself is ignored: there nothing could be opened.
        """
        return self.hides(_resolve(path), len(_resolve(root).parts)) or any(
            is_in(path, target) and not is_in(root, target) for target in self._targets
        )

    def covers_name(self, name: str, path: str, root: str) -> bool:
        """Whether a pattern covers the absolute *path*, which ends with *name*, and covers no folder above it."""
        return self._is_hidden(name, path, root)

    def targets_in(self, root: str) -> tuple[str, ...]:
        """Return the paths below *root* to which links with hidden names led, or which patterns from `/` on name."""
        return tuple([target for target in self._targets if is_in(target, root) and target != root])

    def hides(self, path: ResolvedPath, below: int = -1) -> bool:
        """Whether a pattern covers *path*, but not already the folder of its first *below* parts."""
        return self._fence.find(path, below=below) is not None and self._shown.find(path) is None

    def has_inode(self, status: os.stat_result) -> bool:
        """Whether *status* is that of a hidden file that has several names."""
        return status.st_nlink > 1 and (status.st_dev, status.st_ino) in self._inodes

    def look_through(self, root: str) -> None:
        """Look for links with hidden names, and for hidden files with several names, in the folders nearest to *root*.

        No-op if that was done a short time ago, also by another thread, or if nothing is hidden.
        """
        if not self.patterns or time.monotonic() < self._look_again_at:
            return
        with self._lock:
            began = time.monotonic()
            if began < self._look_again_at:  # another thread has looked while this one waited
                return
            self._looked = dict(islice(self._walk(root, root, self._looked), MAX_LOOKED))
            paths = self._paths_in(self._looked, root, (root,))
            self._inodes = _inodes_of(paths)
            now = time.monotonic()
            self._look_again_at = now + max(LOOK_SECONDS, LOOK_PART * (now - began))

    def find(self, root: str, read_only: Iterable[str]) -> list[str]:
        """Return the hidden paths in *root* and in the folders *read_only*, with links resolved.

        Raise `CommandRefused` if there are more than `MAX_HIDDEN`.
        """
        starts = (root, *read_only)
        with self._lock:
            folders = {folder: names for start in starts for folder, names in self._walk(start, root, self._folders)}
            self._folders = folders
            paths = self._paths_in(folders, root, starts)
        paths |= set(_other_names(_inodes_of(paths), folders))
        existing = sorted(path for path in paths if os.path.exists(path) and not os.path.islink(path))  # noqa: PTH110, PTH114
        if len(existing) > MAX_HIDDEN:
            raise CommandRefused(
                f"more than {MAX_HIDDEN} files and folders in `{root}` would have to be hidden from it"
            )
        return existing

    def _paths_in(self, folders: Mapping[str, FolderNames], root: str, starts: Iterable[str]) -> set[str]:
        """Return the hidden paths in *folders*, what links there lead to, and what patterns from `/` on name.

        Only those in *starts* count, and none that is *root*, or above it.
        """
        absolute = [os.path.realpath(pattern) for pattern in self.patterns if pattern.startswith("/")]
        hidden = {path for names in folders.values() for path in names.hidden}
        links = {path for names in folders.values() for path in names.links}
        links |= {path for top in hidden - links for path in _entries_at(top) if os.path.islink(path)}  # noqa: PTH114 - a text
        self._targets = self._targets.union(absolute, map(os.path.realpath, links))
        paths = hidden | self._targets
        return {path for path in paths if not is_in(root, path) and any(is_in(path, start) for start in starts)}

    def _walk(self, top: str, root: str, former: Mapping[str, FolderNames]) -> Iterator[tuple[str, FolderNames]]:
        """Yield the folders at and below *top*, the nearest ones first; *former* is what was found the last time."""
        folders = deque([top])
        while folders:
            folder = folders.popleft()
            try:
                names = self._names_in(folder, root, former.get(folder))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:  # such as missing rights: its owner, as whom commands run, can open it again
                names = FolderNames(hidden=(folder,))
            yield folder, names
            folders += names.folders

    def _names_in(self, folder: str, root: str, known_names: FolderNames | None) -> FolderNames:
        status = os.lstat(folder)
        state = (status.st_dev, status.st_ino, status.st_ctime_ns)
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
        if folded not in self._names and not self._meets_wild(folded):
            return False
        return self.hides(_resolve(path), len(_resolve(root).parts))

    def _meets_wild(self, folded: str) -> bool:
        return folded.startswith(self._beginnings) and any(meets(last, folded, hidden=True) for last in self._wild)


NOTHING_HIDDEN: Final = HiddenPaths(())
"""For who opens files for the session itself, not for an agent."""


def _resolve(path: str) -> ResolvedPath:
    """Return the place of an absolute *path* without `.` and `..`."""
    return ResolvedPath(absolute=True, parts=tuple([part for part in path.split("/") if part]))


def _inodes_of(paths: Iterable[str]) -> frozenset[tuple[int, int]]:
    """Return device and inode of each regular file in *paths*, and in the folders there, that has several names."""
    inodes: set[tuple[int, int]] = set()
    for path in [path for top in paths for path in _entries_at(top)]:
        with suppress(OSError):
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                inodes.add((status.st_dev, status.st_ino))
    return frozenset(inodes)


def _entries_at(top: str) -> Iterator[str]:
    """Yield *top*, and if it is a folder, the paths of all below it, at most `MAX_INNER`."""
    below = (f"{folder}/{name}" for folder, folders, files in os.walk(top) for name in (*folders, *files))
    yield from (top, *islice(below, MAX_INNER))


def _other_names(inodes: frozenset[tuple[int, int]], folders: Iterable[str]) -> Iterator[str]:
    """Yield the paths in *folders* of the files that *inodes* are those of."""
    for folder in folders if inodes else ():
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(folder) as entries:
            for entry in entries:
                if any(entry.inode() == inode for _, inode in inodes):
                    status = entry.stat(follow_symlinks=False)
                    if (status.st_dev, status.st_ino) in inodes:
                        yield entry.path

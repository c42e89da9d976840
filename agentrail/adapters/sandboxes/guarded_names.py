"""Names in a folder that nobody may take while a command runs."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable
from contextlib import suppress

from agentrail.adapters.sandboxes.confined_open import Root


class Guards:
    """Holds each name that is free by an empty folder: it can be mounted over, and git takes no note of it."""

    __slots__ = ("_free", "_lock", "_made", "_names", "_root", "_users")

    def __init__(self, root: str, names: Iterable[str], free: frozenset[str] = frozenset()) -> None:
        self._root = root
        self._free = free  # these may stay free
        self._names = tuple(names)
        self._lock = threading.Lock()
        self._users = 0
        self._made: list[str] = []

    def hold(self) -> list[str]:
        """Return the names that are to be read-only, after making those that are missing; a link is not held."""
        held: list[str] = []
        with self._lock, Root(self._root) as root:
            for name in self._names:
                if name not in self._free:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=root.fd)
                        self._made.append(name)
                with suppress(FileNotFoundError):
                    if not stat.S_ISLNK(os.stat(name, dir_fd=root.fd, follow_symlinks=False).st_mode):
                        held.append(name)
            self._users += 1
        return held

    def release(self) -> None:
        """Remove what was made when the last command has ended; what somebody filled meanwhile stays."""
        with self._lock, suppress(FileNotFoundError), Root(self._root) as root:  # the whole folder may be gone
            self._users -= 1
            if not self._users:
                for name in self._made:
                    with suppress(OSError):
                        os.rmdir(name, dir_fd=root.fd)
                self._made.clear()

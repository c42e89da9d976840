"""`IncomingFile`: a file on the disk that comes piece by piece, and gets its name when it is whole."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from agentrail.adapters.sandboxes.confined_open import O_PATH, Root
from agentrail.adapters.sandboxes.files import DiskFiles, make_folders, translated
from agentrail.adapters.sandboxes.paths import check_writable, parts_of

NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

NAMELESS: Final = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC if hasattr(os, "O_TMPFILE") else 0
"""The flags of a file without a name; 0 on systems that know none."""


class IncomingFile:
    """A new file below a root folder. Each call may block; after the first one, `drop` or `keep` must be the last."""

    __slots__ = ("_fd", "_files", "_folder", "_other_name", "_parts", "_path", "size")

    def __init__(self, files: DiskFiles, path: str) -> None:
        self._files = files
        self._path = path
        self._parts = parts_of(path)
        self._folder = self._fd = -1
        self._other_name = ""
        self.size = 0

    def begin(self) -> None:
        """Create the file without a name, or under another, in its folder; raise `FileFailed` if its name is taken."""
        check_writable(self._path, self._parts, self._files.protected)
        with translated("write", self._path), Root(self._files.made_root()) as root:
            self._folder = make_folders(root, self._parts[:-1])
            with suppress(FileNotFoundError):
                os.stat(self._parts[-1], dir_fd=self._folder, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            self._fd = _nameless(self._folder)
            if self._fd < 0:
                self._other_name = f".agentrail-{secrets.token_hex(8)}.tmp"
                self._fd = os.open(self._other_name, NEW_FILE, 0o666, dir_fd=self._folder)

    def write(self, piece: bytes) -> None:
        """Add a piece."""
        with translated("write", self._path):
            left = memoryview(piece)
            while left:
                left = left[os.write(self._fd, left) :]
        self.size += len(piece)

    def keep(self) -> None:
        """Give the file its name; raise `FileFailed` if that was taken meanwhile."""
        with translated("write", self._path):
            # A rename would replace a file that has the name; a link does not. If the file has another name, it has two
            # for a moment, and whoever reads it then is refused: so it has none, where the system can do that.
            there = self._other_name or _open_as(self._fd)
            os.link(
                there,
                self._parts[-1],
                src_dir_fd=self._folder,
                dst_dir_fd=self._folder,
                follow_symlinks=not self._other_name,  # a command may have put a link in its place, to what is outside
            )
        self.drop()

    def drop(self) -> None:
        """Remove what has no name; no-op if nothing was created."""
        if self._fd >= 0:
            with suppress(OSError):  # an error of the disk that a write has told of
                os.close(self._fd)
            with suppress(FileNotFoundError):
                if self._other_name:
                    os.unlink(self._other_name, dir_fd=self._folder)
        if self._folder >= 0:
            os.close(self._folder)
        self._folder = self._fd = -1


def _nameless(folder: int) -> int:
    """Return a descriptor of a new file in *folder* that has no name yet; -1 if the system cannot give it one later."""
    if not NAMELESS:
        return -1
    try:
        fd = os.open(".", NAMELESS, 0o666, dir_fd=folder)
    except OSError:  # not every file system has them; what else is wrong, a file with a name will show
        return -1
    with suppress(OSError):
        Path(_open_as(fd)).stat()
        return fd
    os.close(fd)
    return -1


def _open_as(fd: int) -> str:
    """Return the path under which Linux shows an open file."""
    return f"/proc/self/fd/{fd}"


def removed(files: DiskFiles, path: str) -> None:
    """Remove a file, or a folder with all that is in it; links are removed, and not followed. It may block."""
    parts = parts_of(path)
    check_writable(path, parts, files.protected)
    with translated("remove", path), suppress(FileNotFoundError), Root(files.root) as root:
        folder = root.open(parts[:-1], O_PATH | os.O_DIRECTORY, links=False)
        try:
            found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                shutil.rmtree(parts[-1], dir_fd=folder)
            else:
                os.unlink(parts[-1], dir_fd=folder)
        finally:
            os.close(folder)

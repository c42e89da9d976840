"""`ProgramCopy`: a copy of the files of one program, in a folder of the user, from which the program is started.

A program that runs outside of the sandbox must be what was digested. Where it lies, an agent can write: a file can be
another one between its digest and the start, and a new one beside it can take the place of a module. So the bytes that
are digested are written to a folder that no agent sees, and nothing else is in it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from agentrail.adapters.file_lock import try_lock_file
from agentrail.adapters.user_folders import home
from agentrail.cli.own_files import locked

NAME: Final = "programs"
"""Name of the folder with the copies, in the user's folder."""

READ: Final = 0o400
"""The mode of a copied file: a program that changes one would lose that with its end."""

EXECUTED: Final = stat.S_IXUSR
ENTERED: Final = READ | EXECUTED


class ProgramCopy:
    """A copy of files of one folder. It is deleted when the program has ended, or by the next one after a crash."""

    __slots__ = ("_descriptor", "folder", "root")

    def __init__(self, folder: Path) -> None:
        """Create an empty one for files of *folder*; raise `OSError` or `FileFailed` if it cannot be made."""
        self.folder = folder.resolve()
        """The folder whose files are copied, without links."""
        copies = home() / NAME
        with locked(copies):
            copies.mkdir(mode=0o700, exist_ok=True)
            _delete_those_of_crashed_processes(copies)
            self.root = copies.resolve() / secrets.token_hex(8)
            """The folder with the copy."""
            self.root.mkdir(mode=0o700)
            self._descriptor = _locked_folder(self.root)

    def path_of(self, path: Path) -> Path | None:
        """Return where the copy of *path* is, or would be; `None` if *path* is not in the folder."""
        for full_path in (Path(os.path.normpath(path)), Path(os.path.realpath(path))):
            if full_path.is_relative_to(self.folder):
                return self.root / full_path.relative_to(self.folder)
        return None

    def add(self, path: Path, content: bytes, mode: int) -> None:
        """Write *content*, which the file *path* with *mode* had; no-op if *path* is not in the folder."""
        copy = self.path_of(path)
        if copy is None or copy.exists():
            return
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy.write_bytes(content)
        copy.chmod(READ | (mode & EXECUTED))

    def add_link(self, path: Path, target: str) -> None:
        """Make a link to *target* in the place of *path*."""
        copy = self.path_of(path)
        if copy is not None:
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            copy.symlink_to(target)

    def seal(self) -> None:
        """Take away the right to write to its folders."""
        for folder, _, _ in os.walk(self.root):
            Path(folder).chmod(ENTERED)

    def delete(self) -> None:
        """Delete the copy."""
        _delete(self.root)
        os.close(self._descriptor)


def _delete_those_of_crashed_processes(copies: Path) -> None:
    for copy in _folders(copies):
        with suppress(OSError):  # another process is deleting it
            os.close(_locked_folder(copy))
            _delete(copy)


def _folders(copies: Path) -> Iterator[Path]:
    yield from (path for path in copies.iterdir() if not path.is_symlink() and path.is_dir())


def _locked_folder(folder: Path) -> int:
    """Lock *folder* and return its descriptor; raise `BlockingIOError` if a process that lives has locked it."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    if try_lock_file(number):
        return number
    os.close(number)
    raise BlockingIOError


def _delete(copy: Path) -> None:
    for folder, _, _ in os.walk(copy):
        Path(folder).chmod(0o700)
    shutil.rmtree(copy, ignore_errors=True)

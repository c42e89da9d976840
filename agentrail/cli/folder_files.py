"""`FolderFiles`: looks at files for one reading of the settings of a folder, within bounds for all of them together.

Settings of a folder that was cloned say how much that is, and it is done at each start before anybody is asked.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from agentrail.cli.bad_input import BadInputError
from agentrail.cli.settings_file import content_of

MIB: Final = 1024 * 1024

MAX_LOOKS: Final = 100_000
"""The most paths that are looked up; each part of a module's name counts."""

MAX_PROGRAM: Final = 256 * MIB
"""The most bytes of a file that a program of a setting runs: they are digested at each start."""

MAX_DIGESTED: Final = 1024 * MIB
"""The most bytes of all files that are digested."""

MAX_PARSED: Final = 4 * MIB
"""The most bytes of Python that are parsed: it takes a thousand times as long as to digest them."""


class FolderFiles:
    """Looks at files, at each once: what may have changed since is looked at by another one."""

    def __init__(self, to_do: str = "name fewer of them") -> None:
        """Create it; *to_do* tells a person what to do if there is too much to look at."""
        self.imports: dict[tuple[Path, Path], tuple[Path, ...]] = {}
        """The files that a file of Python imports, by its path and the folder of what it imports."""
        self._to_do = to_do
        self._sources: dict[Path, bytes] = {}
        self._digests: dict[Path, str | None] = {}
        self._looks = self._digested = self._python = self._parsed = 0

    def is_file(self, path: Path) -> bool:
        """Whether *path* is that of a regular file."""
        return self._is_there(path.is_file)

    def is_folder(self, path: Path) -> bool:
        """Whether *path* is that of a folder."""
        return self._is_there(path.is_dir)

    def is_in(self, path: Path, folder: Path) -> bool:
        """Whether *path* is below *folder*, which has no links."""
        self.count(1)
        return path.resolve().is_relative_to(folder)

    def _is_there(self, look: Callable[[], bool]) -> bool:
        """Return what *look* returns; nothing has a name that is too long: a word may be a token, or code."""
        self.count(1)
        try:
            return look()
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return False
            raise

    def count(self, looks: int) -> None:
        """Count paths that are looked up; raise `BadInputError` if there are more than `MAX_LOOKS`."""
        self._looks += looks
        if self._looks > MAX_LOOKS:
            raise BadInputError(f"programs and plugins name more than {MAX_LOOKS} paths; {self._to_do}")

    def source(self, path: Path) -> bytes:
        """Return the bytes of the Python file at *path*; raise `BadInputError` after more than `MAX_PARSED`."""
        if path not in self._sources:
            content = self._sources[path] = content_of(path)
            self._python += len(content)
            self._check_python(path, self._python)
        return self._sources[path]

    def to_parse(self, path: Path) -> bytes:
        """Return the bytes of the Python file at *path*; raise `BadInputError` after more than `MAX_PARSED`."""
        content = self.source(path)
        self._parsed += len(content)
        self._check_python(path, self._parsed)
        return content

    def _check_python(self, path: Path, size: int) -> None:
        if size > MAX_PARSED:
            most = f"more than {MAX_PARSED // MIB} MiB of Python"
            raise BadInputError(f"with {path}, programs and plugins import {most}; {self._to_do}")

    def digest_of(self, path: Path, content: bytes) -> str:
        """Return the digest of *content*, which *path* had."""
        self._count_digested(path, len(content))
        return hashlib.sha256(content).hexdigest()

    def digest(self, path: Path) -> str | None:
        """Return the digest of the file at *path*, `None` unless it is a regular one."""
        if path not in self._digests:
            self._digests[path] = self._new_digest(path)
        return self._digests[path]

    def _new_digest(self, path: Path) -> str | None:
        try:
            number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would be waited for
        except OSError as error:
            raise BadInputError(f"{path} cannot be read: {error.strerror}") from None
        with os.fdopen(number, "rb") as file:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode):
                return None
            if status.st_size > MAX_PROGRAM:
                most = f"has more than {MAX_PROGRAM // MIB} MiB"
                raise BadInputError(
                    f"{path} is named by a program's command line and {most}; put it outside of the folder"
                )
            self._count_digested(path, status.st_size)
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _count_digested(self, path: Path, size: int) -> None:
        self._digested += size
        if self._digested > MAX_DIGESTED:
            most = f"more than {MAX_DIGESTED // MIB} MiB"
            raise BadInputError(f"with {path}, the files that programs and plugins run have {most}; {self._to_do}")

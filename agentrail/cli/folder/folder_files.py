"""`FolderFiles`: looks at files for one reading of the settings of a folder, within bounds for all of them together.

Settings of a folder that was cloned say how much that is, and it is done at each start before anybody is asked.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from agentrail.cli.folder.program_copy import ProgramCopy
from agentrail.cli.folder.settings_file import content_of
from agentrail.cli.output.bad_input import BadInputError
from agentrail.values.json import canonical

MIB: Final = 1024 * 1024

MAX_LOOKS: Final = 100_000
"""The most paths that are looked up; each part of a module's name counts."""

MAX_PROGRAM: Final = 256 * MIB
"""The most bytes of a file that a program of a setting runs: they are digested at each start."""

MAX_DIGESTED: Final = 1024 * MIB
"""The most bytes of all files that are digested."""

MAX_PARSED: Final = 4 * MIB
"""The most bytes of Python that are parsed: it takes a thousand times as long as to digest them."""

LEADING_ON: Final = (".pth", ".egg-link", "pyvenv.cfg")
"""Endings of files of a virtual environment that may lead Python to other folders; so do those of `EDITABLE`."""

EDITABLE: Final = "__editable__"
"""How the names of modules begin that lead Python to a project that was installed with `--editable`."""

COMPILED: Final = ("__pycache__", ".pyc")
"""Endings of what Python has compiled; it may be of other code, so it is neither digested nor copied."""


class FolderFiles:
    """Looks at files, at each once: what may have changed since is looked at by another one."""

    def __init__(self, to_do: str = "name fewer of them", copy: ProgramCopy | None = None) -> None:
        """Create it; *to_do* tells a person what to do if there is too much to look at.

        What is digested is written to *copy*, if it is given: the same bytes.
        """
        self.imports: dict[tuple[Path, Path, bool], tuple[Path, ...]] = {}
        """The files that a file of Python imports, by its path, the folder of what it imports, and its kind."""
        self.copy: ProgramCopy | None = copy
        """Where the bytes are written that are digested; `None` if nothing is to be started."""
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
        if self.copy is not None:
            self.copy.add(path, content, _mode(path))
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
            self._check_program(path, status.st_size)
            if self.copy is None or self.copy.path_of(path) is None:
                self._count_digested(path, status.st_size)
                return hashlib.file_digest(file, "sha256").hexdigest()
            content = file.read(MAX_PROGRAM + 1)  # it may have grown
            self._check_program(path, len(content))
            return self.digest_of(path, content)

    def _check_program(self, path: Path, size: int) -> None:
        if size > MAX_PROGRAM:
            most = f"has more than {MAX_PROGRAM // MIB} MiB"
            raise BadInputError(f"{path} is named by a program's command line and {most}; put it outside of the folder")

    def tree_digest(self, tree: Path, folder: Path) -> str:
        """Return the digest of all that is in the folder *tree* of *folder*, except what Python has compiled.

        Raise `BadInputError` if something in it leads to files of *folder* that are not in it: they are not digested.
        """
        rows = [[str(path.relative_to(tree)), self._digest_in_tree(path, tree, folder)] for path in self._paths(tree)]
        return hashlib.sha256(canonical(rows).encode(errors="surrogatepass")).hexdigest()

    def _paths(self, tree: Path) -> Iterator[Path]:
        """Yield the links and regular files in *tree*, in order."""
        for path in sorted(tree.iterdir()):
            self.count(1)
            if path.name.endswith(COMPILED):
                continue
            if path.is_symlink() or path.is_file():
                yield path
            elif path.is_dir():
                yield from self._paths(path)

    def _digest_in_tree(self, path: Path, tree: Path, folder: Path) -> str:
        if path.is_symlink():
            return self._digest_of_link(path, tree, folder)
        if not path.name.endswith(LEADING_ON) and not path.name.startswith(EDITABLE):
            return self.digest(path) or ""
        content = content_of(path)
        lines = (line for line in content.splitlines() if not line.startswith(b"command"))  # how it was once made
        if any(os.fsencode(folder) in line for line in lines):
            raise BadInputError(f"{path} leads back to {folder}, {_NOT_DIGESTED}")
        return self.digest_of(path, content)

    def _digest_of_link(self, path: Path, tree: Path, folder: Path) -> str:
        target = str(path.readlink())
        real_path = Path(os.path.realpath(path.parent / target))
        if real_path.is_relative_to(folder) and not real_path.is_relative_to(tree):
            raise BadInputError(f"{path} leads to {real_path}, {_NOT_DIGESTED}")
        if not real_path.is_relative_to(tree):
            target = str(real_path)
        elif Path(target).is_absolute():
            target = os.path.relpath(real_path, path.parent)
        if self.copy is not None:
            self.copy.add_link(path, target)
        return f"link to {target}"

    def _count_digested(self, path: Path, size: int) -> None:
        self._digested += size
        if self._digested > MAX_DIGESTED:
            most = f"more than {MAX_DIGESTED // MIB} MiB"
            raise BadInputError(f"with {path}, the files that programs and plugins run have {most}; {self._to_do}")


_NOT_DIGESTED: Final = (
    "where files change without a question; install it as a copy (`pip install .` without `--editable`),"
    " or outside of the folder"
)


def _mode(path: Path) -> int:
    """Return the mode of the file *path*; 0 if it is gone."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0

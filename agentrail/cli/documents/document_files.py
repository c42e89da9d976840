"""`document_files`: the files of documents that are named, and those in folders that are."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

ENDINGS: Final = frozenset({".md", ".markdown", ".mdx", ".rst", ".text", ".txt"})
"""How the names of files in a folder end that are documents."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of a file that are read."""


class DocumentFile(NamedTuple):
    """A file, and the name that its document gets."""

    path: Path
    """The file."""
    name: str
    """Its path from the current folder on, if it is in that; else from the named file or folder on."""

    def read(self) -> bytes:
        """Return the bytes of the file, and one more than a document may have if it has more."""
        with self.path.open("rb") as file:
            return file.read(MAX_BYTES + 1)


def document_files(paths: Iterable[Path]) -> Iterator[DocumentFile]:
    """Yield the files among *paths*, and the documents in those that are folders: no links, nothing hidden."""
    here = Path.cwd()
    for path in paths:
        whole = Path(os.path.abspath(path))  # noqa: PTH100 - a link that is named may be followed, and keeps its name
        base = here if whole.is_relative_to(here) else whole.parent
        for file in _in_folder(whole) if whole.is_dir() else [whole]:
            yield DocumentFile(file, unicodedata.normalize("NFC", file.relative_to(base).as_posix()))


def _in_folder(folder: Path) -> Iterator[Path]:
    """Yield the documents below *folder*, in order."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            file = Path(parent, name)
            if file.suffix.lower() in ENDINGS and not name.startswith(".") and not file.is_symlink():
                yield file

"""`ObjectStore`: contents of files by their digest, in a bare git repository of our own.

The repository is outside of the folder whose files it keeps, and only this module writes it: git is never run. So
nothing that a folder brings along (hooks, filters, settings, attributes, submodules) can run or be obeyed, and a
machine without git has snapshots too. A person who has git can look at one: `git --git-dir=STORE show SNAPSHOT:files`.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from agentrail.errors import OutsideError, UsageError

BLOB: Final = b"blob"
TREE: Final = b"tree"

FOLDER_MODE: Final = b"40000"
LINK_MODE: Final = b"120000"

CONFIG: Final = (
    b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n[gc]\n\tauto = 0\n"
)
"""Settings of the repository. SHA-256, because an agent that finds two contents with one digest could swap them."""

LEVEL: Final = 1
"""How much a content is compressed: little, because a call waits for it."""

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)


class TreeEntry(NamedTuple):
    """One name in a folder."""

    mode: bytes
    """Its kind and rights, as git writes them: `40000` is a folder, `120000` a link, `100` and three digits a file."""
    digest: str
    """Digest of the content, of the folder's tree, or of the link's target."""


class ObjectStore:
    """Contents and trees by their digest."""

    __slots__ = ("_objects", "folder", "written")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._objects = folder / "objects"
        self.written = 0
        """Bytes that were written since the store was made."""

    def make(self) -> None:
        """Create the repository if it is missing; only its owner can read it."""
        if (self.folder / "config").exists():
            return
        with self.writing():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in ("refs", "objects"):
                (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        for name, data in (("HEAD", b"ref: refs/heads/none\n"), ("config", CONFIG)):
            self.replace(name, data)

    def replace(self, name: str, data: bytes) -> None:
        """Write the file *name* of the store atomically; what a killed process has left of it is overwritten."""
        path = f"{self.folder}/{name}"
        beside = f"{path}.tmp"
        with self.writing():
            fd = os.open(beside, _NEW_FILE, 0o600)
            with open(fd, "wb") as file:  # noqa: PTH123 - of a descriptor
                file.write(data)
            os.rename(beside, path)  # noqa: PTH104 - a text: one of thousands

    @contextmanager
    def writing(self) -> Generator[None]:
        """Within this block, raise an `OSError` as an `OutsideError` that names the store."""
        try:
            yield
        except OSError as error:
            raise OutsideError("snapshot-not-kept", str(self.folder), (error.strerror or str(error)).lower()) from error

    def write(self, kind: bytes, data: bytes) -> str:
        """Keep *data*, unless it is kept already, and return its digest."""
        content = b"%s %d\0" % (kind, len(data)) + data
        digest = hashlib.sha256(content).hexdigest()
        name = f"objects/{digest[:2]}/{digest[2:]}"
        try:
            if os.stat(f"{self.folder}/{name}").st_size:  # noqa: PTH116 - as above; empty after a loss of power
                return digest
        except FileNotFoundError:
            with self.writing():
                (self._objects / digest[:2]).mkdir(mode=0o700, exist_ok=True)
        packed = zlib.compress(content, LEVEL)
        self.replace(name, packed)
        self.written += len(packed)
        return digest

    def read(self, kind: bytes, digest: str) -> bytes:
        """Return what is kept under *digest*; raise `OutsideError` if it is not there or damaged."""
        try:
            content = zlib.decompress(self._path(digest).read_bytes())
        except FileNotFoundError:
            raise UsageError("snapshot-gone", digest[:12]) from None
        except (OSError, zlib.error) as error:
            raise OutsideError("snapshot-damaged", digest[:12]) from error
        head, _, data = content.partition(b"\0")
        if hashlib.sha256(content).hexdigest() != digest or head != b"%s %d" % (kind, len(data)):
            raise OutsideError("snapshot-damaged", digest[:12])
        return data

    def write_tree(self, entries: dict[bytes, TreeEntry]) -> str:
        """Keep a folder of these *entries*, by name, and return its digest."""
        rows = sorted(entries.items(), key=lambda row: row[0] + b"/" if row[1].mode == FOLDER_MODE else row[0])
        return self.write(TREE, b"".join(b"%s %s\0%s" % (e.mode, name, bytes.fromhex(e.digest)) for name, e in rows))

    def read_tree(self, digest: str) -> dict[bytes, TreeEntry]:
        """Return the entries of a folder, by name."""
        data, entries, position = self.read(TREE, digest), dict[bytes, TreeEntry](), 0
        while position < len(data):
            end = data.index(b"\0", position)
            mode, _, name = data[position:end].partition(b" ")
            position = end + 33
            entries[name] = TreeEntry(mode, data[end + 1 : position].hex())
        return entries

    def digests(self) -> Iterator[tuple[str, Path]]:
        """Yield the digest and the path of everything that is kept."""
        for folder in self._objects.iterdir():
            if len(folder.name) == 2:  # noqa: PLR2004 - the first byte of a digest
                for path in folder.iterdir():
                    yield folder.name + path.name, path

    def _path(self, digest: str) -> Path:
        return self._objects / digest[:2] / digest[2:]

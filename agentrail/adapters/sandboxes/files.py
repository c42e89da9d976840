"""`DiskFiles`: the files below one root folder on the disk, all opened by `confined_open`.

`FileStore` is the protocol of files on disk or in memory that sandboxes and searches use. It is synchronous.

`IncomingFile` is a file on the disk that is written piece by piece, and gets its name when it is complete.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import Final, Protocol, Self

from agentrail.adapters.sandboxes.confined_open import FOLDER, O_PATH, PLAIN, Root, check_file, open_file
from agentrail.adapters.sandboxes.hidden_paths import NOTHING_HIDDEN, HiddenPaths
from agentrail.adapters.sandboxes.paths import PROTECTED, Parts, Why, check_writable, parts_of, path_of
from agentrail.errors import AgentrailError, BadEdit, DiskFull, FileFailed, FileMissing, PathRefused
from agentrail.ports.sandbox import MAX_FILE, Content, Edited, Entry, Kind, Written
from agentrail.values.value import quick

_made = quick(Entry)


class FileStore(Protocol):
    """The files below one root; each call may block."""

    def read(self, path: str, offset: int, limit: int) -> Content:
        """Return up to *limit* bytes of a file from *offset* on, and its size."""
        ...

    def write(self, path: str, data: bytes) -> Written:
        """Write *data* to a file; missing parent folders are created."""
        ...

    def edit(self, path: str, old: bytes, new: bytes, *, every: bool) -> Edited:
        """Replace *old* in a file by *new*; it must occur exactly once unless *every*."""
        ...

    def kind(self, path: str) -> Kind | None:
        """Return the kind of the file or folder at *path*, links followed; `None` if there is none."""
        ...

    def entries(self, parts: Parts) -> list[Entry]:
        """Return the entries of a folder, sorted by name."""
        ...

    def data(self, parts: Parts) -> bytes | None:
        """Return the content of a file for a search; `None` if it cannot be read or is too large."""
        ...


@contextmanager
def translate_errors(verb: str, path: str) -> Generator[None]:
    """Within this block, raise an `OSError` as a `FileFailed` that says what was attempted (*verb*)."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissing(verb, path, "file or folder") from error
    except OSError as error:
        kind = DiskFull if error.errno in {errno.ENOSPC, errno.EDQUOT} else FileFailed
        raise kind(verb, path, (error.strerror or str(error)).lower()) from error


def check_data(path: str, data: object) -> None:
    """Raise `FileFailed` if *data* is not bytes."""
    if not isinstance(data, bytes | bytearray | memoryview):
        hint = "; use `text.encode()`" if isinstance(data, str) else ""
        raise FileFailed("write", path, f"its content is a `{type(data).__name__}`, and a file is bytes{hint}")


def replace_text(path: str, data: bytes, old: bytes, new: bytes, *, every: bool) -> tuple[bytes, int]:
    """Return *data* with *old* replaced by *new*, once or, with *every*, wherever it occurs; and how often it occurred.

    Raise `BadEdit` if *old* does not occur, or occurs several times and not *every* one is to be replaced.
    """
    times = data.count(old) if old else 0
    if times == 0 or (times > 1 and not every):
        raise BadEdit(path, times, "at least 1" if every else "exactly 1")
    return data.replace(old, new), times


_TRIES: Final = 8


class DiskFiles:
    """The files below one folder on the disk."""

    __slots__ = ("_hard_links", "_root", "_where", "hidden_paths", "protected")

    def __init__(
        self, root: str, hidden_paths: HiddenPaths, *, hard_links: bool = False, protected: Iterable[str] = PROTECTED
    ) -> None:
        self._where = root if os.path.isabs(root) else f"{os.getcwd()}/{root}"  # noqa: PTH109, PTH117 - ten times as quick
        self._root: str | None = None
        self._hard_links = hard_links
        self.hidden_paths = hidden_paths
        self.protected = tuple(protected)

    @property
    def unhidden(self) -> Self:
        """The same files, of which nothing is hidden."""
        files = copy(self)
        files.hidden_paths = NOTHING_HIDDEN
        return files

    @property
    def root(self) -> str:
        """The root folder, with links resolved at the first use, which is in a thread because it may block."""
        if self._root is None:
            self._root = os.path.realpath(self._where)
        return self._root

    def ensure_root(self) -> str:
        """Return the root folder; create it with its parents if it is missing."""
        Path(self.root).mkdir(parents=True, exist_ok=True)
        return self.root

    def open_folder(self, path: str) -> int:
        """Return a descriptor of a folder, to run a command there."""
        parts = parts_of(path)
        with translate_errors("run in", path), Root(self.root, self.hidden_paths) as root:
            return root.open(parts, FOLDER)

    def read(self, path: str, offset: int, limit: int) -> Content:
        """Return up to *limit* bytes of a file from *offset* on, and its size."""
        parts = parts_of(path)
        with translate_errors("read", path), Root(self.root, self.hidden_paths) as root:
            fd = open_file(root, parts, hard_links=self._hard_links)
            try:
                data = _pieces(fd, max(offset, 0), min(max(limit, 0), MAX_FILE))
                return Content(data, max(os.fstat(fd).st_size, len(data)))
            finally:
                os.close(fd)

    def write(self, path: str, data: bytes) -> Written:
        """Write *data* to a file atomically; missing parent folders are created."""
        parts = parts_of(path)
        check_writable(path, parts, self.protected)
        check_data(path, data)
        with translate_errors("write", path), Root(self.ensure_root(), self.hidden_paths) as root:
            root.check_unhidden(parts)
            folder = make_folders(root, parts[:-1])
            try:
                status = self._look(folder, parts)
                _write_and_rename(folder, parts[-1], data, status)
            finally:
                os.close(folder)
        return Written(len(data), status is None)

    def edit(self, path: str, old: bytes, new: bytes, *, every: bool) -> Edited:
        """Replace *old* in a file by *new*; if another program changes the file meanwhile, start again."""
        parts = parts_of(path)
        check_writable(path, parts, self.protected)
        with translate_errors("edit", path), Root(self.root, self.hidden_paths) as root:
            root.check_unhidden(parts)
            folder = root.open(parts[:-1], O_PATH | os.O_DIRECTORY, links=False)
            try:
                for _ in range(_TRIES):
                    status = self._look(folder, parts)
                    if status is None:
                        raise FileNotFoundError(path)
                    root.check_other_names(path, status)
                    if status.st_size > MAX_FILE:
                        raise FileFailed("edit", path, f"it is larger than {MAX_FILE} bytes")
                    data, times = replace_text(path, _same_file(folder, parts, status), old, new, every=every)
                    if _write_and_rename(folder, parts[-1], data, status, unchanged=True):
                        return Edited(times, len(data))
            finally:
                os.close(folder)
        raise PathRefused(path, Why.MOVING)

    def kind(self, path: str) -> Kind | None:
        """Return the kind of the file or folder at *path*, links followed; `None` if there is none."""
        parts = parts_of(path)
        with translate_errors("look at", path), Root(self.root, self.hidden_paths) as root:
            try:
                fd = root.open(parts, O_PATH)
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                return _kind(os.fstat(fd).st_mode)
            finally:
                os.close(fd)

    def entries(self, parts: Parts) -> list[Entry]:
        """Return the entries of a folder, sorted by name."""
        with translate_errors("list", path_of(parts)), Root(self.root, self.hidden_paths) as root:
            fd = root.open(parts, FOLDER)
            try:
                with os.scandir(fd) as scan:
                    return sorted((_entry(parts, item) for item in scan), key=lambda entry: entry.path)
            finally:
                os.close(fd)

    def data(self, parts: Parts) -> bytes | None:
        """Return the content of a file for a search; `None` if it cannot be read or is too large."""
        try:
            content = self.read(path_of(parts), 0, MAX_FILE)
        except AgentrailError:
            return None
        return content.data if content.size <= MAX_FILE else None

    def _look(self, folder: int, parts: Parts) -> os.stat_result | None:
        """Return the status of the file that is to be replaced, `None` if there is none; raise if that is forbidden."""
        try:
            status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        check_file(path_of(parts), status, hard_links=self._hard_links)
        return status


def _pieces(fd: int, offset: int, limit: int) -> bytes:
    """Read up to *limit* bytes from *offset* on; several reads, because one may return less than it is asked for."""
    pieces: list[bytes] = []
    while limit > 0 and (piece := os.pread(fd, min(limit, 1 << 20), offset)):
        pieces.append(piece)
        offset += len(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _same_file(folder: int, parts: Parts, status: os.stat_result) -> bytes:
    """Return the content of the file with the status *status*; raise `PathRefused` if another took its place."""
    fd = os.open(parts[-1], os.O_RDONLY | PLAIN | os.O_NOFOLLOW, dir_fd=folder)
    try:
        if not os.path.samestat(os.fstat(fd), status):
            raise PathRefused(path_of(parts), Why.MOVING)
        return _pieces(fd, 0, MAX_FILE)
    finally:
        os.close(fd)


def make_folders(root: Root, parts: Parts) -> int:
    """Return a descriptor of the folder *parts*, after creating missing folders; no link is followed."""
    flags = O_PATH | os.O_DIRECTORY
    with suppress(FileNotFoundError):
        return root.open(parts, flags, links=False)
    folder = root.open((), flags)
    for depth in range(1, len(parts) + 1):
        try:
            with suppress(FileExistsError):
                os.mkdir(parts[depth - 1], dir_fd=folder)
            below = root.open(parts[:depth], flags, links=False)
        finally:
            os.close(folder)
        folder = below
    return folder


def _write_and_rename(
    folder: int, name: str, data: bytes, status: os.stat_result | None, *, unchanged: bool = False
) -> bool:
    """Write *data* to a temporary file and rename it to *name*; return whether it was renamed.

    With *unchanged*, it is renamed only if the file *name* still has the status *status*.
    """
    beside = f".agentrail-{secrets.token_hex(8)}.tmp"
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    try:
        with open(fd, "wb", closefd=True) as file:  # noqa: PTH123 - of a descriptor
            if status is not None:
                os.fchmod(fd, stat.S_IMODE(status.st_mode) & 0o777)
            file.write(data)
        if unchanged and not _is_same(status, os.stat(name, dir_fd=folder, follow_symlinks=False)):
            return False
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        beside = ""
    finally:
        if beside:
            os.unlink(beside, dir_fd=folder)
    return True


def _is_same(old: os.stat_result | None, new: os.stat_result) -> bool:
    return old is not None and (old.st_dev, old.st_ino, old.st_mtime_ns, old.st_size) == (
        new.st_dev,
        new.st_ino,
        new.st_mtime_ns,
        new.st_size,
    )


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.FOLDER
    return Kind.LINK if stat.S_ISLNK(mode) else Kind.OTHER


def _entry(parts: Parts, item: os.DirEntry[str]) -> Entry:
    name = os.fsencode(item.name).decode(errors="backslashreplace")
    try:
        status = item.stat(follow_symlinks=False)
    except OSError:
        return _made(path_of((*parts, name)), Kind.OTHER)
    kind = _kind(status.st_mode)
    return _made(path_of((*parts, name)), kind, status.st_size if kind is Kind.FILE else 0)


NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)

NAMELESS: Final = os.O_TMPFILE | os.O_WRONLY if hasattr(os, "O_TMPFILE") else 0
"""The flags of a file without a name; 0 on systems that know none."""


class IncomingFile:
    """A new file below a root folder. Each method may block; after `begin`, the last call must be `keep` or `drop`."""

    __slots__ = ("_fd", "_files", "_folder", "_other_name", "_parts", "_path", "size")

    def __init__(self, files: DiskFiles, path: str) -> None:
        self._files = files
        self._path = path
        self._parts = parts_of(path)
        self._folder = self._fd = -1
        self._other_name = ""
        self.size = 0

    def begin(self) -> None:
        """Create the file in its folder, nameless or with a temporary name; raise `FileFailed` if its name is taken."""
        check_writable(self._path, self._parts, self._files.protected)
        with translate_errors("write", self._path), Root(self._files.ensure_root(), self._files.hidden_paths) as root:
            root.check_unhidden(self._parts)
            self._folder = make_folders(root, self._parts[:-1])
            with suppress(FileNotFoundError):
                os.stat(self._parts[-1], dir_fd=self._folder, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            self._fd = _nameless(self._folder)
            if self._fd < 0:
                self._other_name = f".agentrail-{secrets.token_hex(8)}.tmp"
                self._fd = os.open(self._other_name, NEW_FILE, 0o666, dir_fd=self._folder)

    def write(self, piece: bytes) -> None:
        """Append *piece* to the file."""
        with translate_errors("write", self._path):
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        self.size += len(piece)

    def keep(self) -> None:
        """Give the complete file its name, and close it; raise `FileFailed` if the name was taken meanwhile."""
        with translate_errors("write", self._path):
            # `link` and not `rename`, because a rename would replace a file that has got the name meanwhile. A file
            # with a temporary name has two names for a moment, and `confined_open` refuses files with two names. So the
            # file is nameless before, on systems that allow that (`_nameless`).
            name = self._other_name or _open_as(self._fd)
            os.link(
                name,
                self._parts[-1],
                src_dir_fd=self._folder,
                dst_dir_fd=self._folder,
                # a command may have replaced the temporary file by a link that leads out of the root
                follow_symlinks=not self._other_name,
            )
        self.drop()

    def drop(self) -> None:
        """Close the file, and remove its temporary name: unless `keep` was called, the file is gone."""
        if self._fd >= 0:
            with suppress(OSError):  # a disk error, which `write` has raised already
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
    except OSError:  # not every file system can do this; any other failure is raised again when a named file is created
        return -1
    with suppress(OSError):
        Path(_open_as(fd)).stat()
        return fd
    os.close(fd)
    return -1


def _open_as(fd: int) -> str:
    """Return the path under which Linux shows an open file."""
    return f"/proc/self/fd/{fd}"


def remove_path(files: DiskFiles, path: str) -> None:
    """Remove a file, or a folder with all that is in it; links are removed, and not followed. It may block."""
    parts = parts_of(path)
    check_writable(path, parts, files.protected)
    with translate_errors("remove", path), suppress(FileNotFoundError), Root(files.root, files.hidden_paths) as root:
        root.check_unhidden(parts)
        folder = root.open(parts[:-1], O_PATH | os.O_DIRECTORY, links=False)
        try:
            status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                shutil.rmtree(parts[-1], dir_fd=folder)
            else:
                os.unlink(parts[-1], dir_fd=folder)
        finally:
            os.close(folder)

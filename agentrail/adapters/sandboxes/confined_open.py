"""Opens files below a root folder; neither a part of the path nor a link in it can lead out of the root.

On Linux the kernel ensures that: `openat2` with `RESOLVE_BENEATH`. Elsewhere `Walk` opens the path part by part without
following links; it reads each link and walks its target in the same way. Both give the same results.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from agentrail.adapters.sandboxes.paths import Parts, Why, path_of
from agentrail.adapters.system import HAS_FOLDERS
from agentrail.adapters.user_folders import hidden_in, is_in
from agentrail.errors import FileFailed, PathRefused

if TYPE_CHECKING:  # a terminal asks for keys before it imports patterns
    from agentrail.adapters.sandboxes.hidden_paths import HiddenPaths

NO_FOLDERS: Final = (
    "this system, as Windows, opens no files below an open folder, so a link could lead out of it; "
    "work in the Windows Subsystem for Linux, or give the session `MemorySandbox()` or a sandbox of your own"
)

O_CLOEXEC: Final = getattr(os, "O_CLOEXEC", 0)
O_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)
O_PATH: Final[int] = getattr(os, "O_PATH", os.O_RDONLY | O_NONBLOCK)
FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
PLAIN: Final = getattr(os, "O_NOCTTY", 0) | O_NONBLOCK

NO_XDEV: Final = 0x01
NO_MAGICLINKS: Final = 0x02
NO_SYMLINKS: Final = 0x04
BENEATH: Final = 0x08

RESOLVE = BENEATH | NO_MAGICLINKS | NO_XDEV
"""The flags of `openat2` for every path."""

MAX_LINKS: Final = 40
"""The most links in one path, the same as in the Linux kernel."""

_OPENED: Final = "/proc/self/fd"
"""Where Linux shows the path of each open file."""

_DELETED: Final = " (deleted)"
"""What Linux adds to the path of an open file that has been removed."""

_OPENAT2: Final = 437
_TRIES: Final = 32


@functools.cache
def _syscall() -> Callable[..., int]:
    import ctypes  # noqa: PLC0415 - only Linux needs it here

    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return function


def _openat2(root: int, path: str, flags: int, resolve: int) -> int:
    import ctypes  # noqa: PLC0415 - only Linux needs it here

    how = (ctypes.c_uint64 * 3)(flags, 0, resolve)  # the kernel's `struct open_how`, with no mode
    for _ in range(_TRIES):
        descriptor = _syscall()(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(root),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if descriptor >= 0:
            return int(descriptor)
        if ctypes.get_errno() not in {errno.EAGAIN, errno.EINTR}:
            break
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), path)


@functools.cache
def has_openat2() -> bool:
    """Whether the kernel has `openat2` and lets this process use it; tried once per process."""
    if not hasattr(os, "O_PATH") or not os.path.exists(_OPENED):  # noqa: PTH110 - without it, nobody tells where a link led
        return False
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        os.close(_openat2(root, ".", os.O_PATH, RESOLVE))
    except (ImportError, OSError, AttributeError):
        return False
    else:
        return True
    finally:
        os.close(root)


class Root:
    """The root folder, open within a `with` block, in which paths below it are opened.

    Nothing is opened that is in *hidden_paths*, nor files and folders of agentrail itself; see
    `agentrail.adapters.user_folders`. Links are followed first: what counts is the path of what was opened.
    """

    __slots__ = ("_device", "_folder", "_hidden_paths", "_own", "fd")

    def __init__(self, folder: str, hidden_paths: HiddenPaths) -> None:
        self._folder = folder
        self._device = 0
        self._own = hidden_in(folder)  # the files and folders of agentrail itself
        self._hidden_paths = hidden_paths
        self.fd = -1

    def __enter__(self) -> Self:
        if not HAS_FOLDERS:
            raise FileFailed("open", self._folder, NO_FOLDERS)
        self._hidden_paths.look_through(self._folder)
        self.fd = os.open(self._folder, O_PATH | os.O_DIRECTORY | O_CLOEXEC)
        self._device = os.fstat(self.fd).st_dev
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)

    def open(self, parts: Parts, flags: int, *, links: bool = True) -> int:
        """Open the path *parts* and return a descriptor; with *links*, links that stay below the root are followed."""
        path = path_of(parts)
        flags |= O_CLOEXEC
        try:
            if has_openat2():
                opened = _openat2(self.fd, path, flags, RESOLVE if links else RESOLVE | NO_SYMLINKS)
                real_path = str(Path(_OPENED, str(opened)).readlink()).removesuffix(_DELETED)
            else:
                walk = Walk(self.fd, self._device, links=links)
                opened = walk.open(parts, flags)
                real_path = self._path_of(walk.resolved)
        except OSError as error:
            raise _path_error(error, path, links=links) from error
        why = self._why_hidden(real_path) or self._why_hidden(self._path_of(parts))
        if why is not None:
            os.close(opened)
            raise PathRefused(path, why)
        return opened

    def _path_of(self, parts: Parts) -> str:
        return "/".join((self._folder.rstrip("/"), *parts))

    def _why_hidden(self, path: str) -> Why | None:
        """Return why the absolute path *path* is hidden; `None` if it is not."""
        if any(is_in(path, hidden) for hidden in self._own):
            return Why.OWN
        return Why.HIDDEN if self._hidden_paths.covers(path, self._folder) else None

    def check_unhidden(self, parts: Parts) -> None:
        """Raise `PathRefused` if the path, in which no link is followed, is hidden or has files of agentrail itself.

        It is for what is written or removed without being opened.
        """
        path = self._path_of(parts)
        why = Why.OWN if any(is_in(hidden, path) for hidden in self._own) else self._why_hidden(path)
        if why is not None:
            raise PathRefused(path_of(parts), why)

    def check_other_names(self, path: str, status: os.stat_result) -> None:
        """Raise `PathRefused` if *status* is that of a file with another name that is hidden (a hard link)."""
        if self._hidden_paths.has_inode(status):
            raise PathRefused(path, Why.HIDDEN)


def _path_error(error: OSError, path: str, *, links: bool) -> Exception:
    if error.errno in {errno.EXDEV, errno.EAGAIN}:
        return PathRefused(path, Why.OUTSIDE if error.errno == errno.EXDEV else Why.MOVING)
    if error.errno == errno.ELOOP:
        return PathRefused(path, Why.LINKS if links else Why.THROUGH_LINK)
    if error.errno in {errno.ENXIO, errno.ENODEV}:
        return PathRefused(path, Why.NO_FILE)
    if error.errno == errno.ENAMETOOLONG:
        return PathRefused(path, Why.TOO_LONG)
    return error


class Walk:
    """Opens a path part by part, and keeps the folders on the way open.

    Only targets of links contain `..`; it goes back to the folder above, which is still open.
    """

    __slots__ = ("_device", "_held", "_left", "_links", "_names")

    def __init__(self, root: int, device: int, *, links: bool) -> None:
        self._held = [os.dup(root)]
        self._names: list[str] = []  # the names of the folders that are held below the root, then of what was opened
        self._device = device
        self._left = MAX_LINKS if links else 0
        self._links = links

    @property
    def resolved(self) -> Parts:
        """The path of what was opened, without links."""
        return tuple(self._names)

    def open(self, parts: Parts, flags: int) -> int:
        """Open the path *parts* and return a descriptor."""
        todo = list(reversed(parts))
        try:
            while todo:
                part = todo.pop()
                if part == "..":
                    self.up()
                elif (target := self.link(part)) is not None:
                    todo.extend(reversed(self.parts_of(target)))
                elif todo:
                    self.down(part)
                else:
                    opened = self.same_device(os.open(part, flags | os.O_NOFOLLOW, dir_fd=self._held[-1]))
                    self._names.append(part)
                    return opened
            return os.open(".", flags, dir_fd=self._held[-1])
        finally:
            for fd in self._held:
                os.close(fd)

    def up(self) -> None:
        """Go back to the folder above, which is still open; raise `EXDEV` at the root."""
        if len(self._held) == 1:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        os.close(self._held.pop())
        self._names.pop()

    def down(self, part: str) -> None:
        """Go into the folder *part* of the current folder."""
        fd = os.open(part, O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._held[-1])
        self._held.append(self.same_device(fd))
        self._names.append(part)

    def link(self, part: str) -> str | None:
        """Return the target of the link *part*; `None` if it is no link."""
        try:
            return os.readlink(part, dir_fd=self._held[-1])
        except OSError as error:
            if error.errno in {errno.EINVAL, errno.ENOENT, errno.ENOTDIR}:
                return None  # not a link, or missing: opening it will raise the error
            raise

    def parts_of(self, target: str) -> list[str]:
        """Return the parts of a link's *target*; raise `EXDEV` if it is absolute, `ELOOP` after too many links."""
        self._left -= 1
        if self._left < 0:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.startswith("/"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return [part for part in target.split("/") if part not in {"", "."}]

    def same_device(self, fd: int) -> int:
        """Return *fd*; close it and raise `EXDEV` if it is on another file system than the root."""
        if os.fstat(fd).st_dev != self._device:
            os.close(fd)
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return fd


def check_file(path: str, status: os.stat_result, *, hard_links: bool) -> None:
    """Raise an error unless *status* is a regular file with one name, or with several if *hard_links* are allowed."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISLNK(status.st_mode):
        raise PathRefused(path, Why.THROUGH_LINK)
    if not stat.S_ISREG(status.st_mode):
        raise PathRefused(path, Why.NO_FILE)
    if status.st_nlink > 1 and not hard_links:
        raise PathRefused(path, Why.HARD_LINK)


def open_file(root: Root, parts: Parts, *, hard_links: bool) -> int:
    """Open a regular file for reading and return a descriptor.

    It is checked before it is opened for reading, because opening a device or a pipe may have effects.
    """
    path = path_of(parts)
    for _ in range(_TRIES):
        path_only = root.open(parts, O_PATH)
        try:
            status = os.fstat(path_only)
            check_file(path, status, hard_links=hard_links)
            root.check_other_names(path, status)
            fd = root.open(parts, os.O_RDONLY | PLAIN)
            if os.path.samestat(os.fstat(fd), status):
                return fd
            os.close(fd)  # another file was put at the path between the two opens
        finally:
            os.close(path_only)
    raise PathRefused(path, Why.MOVING)


def identity_of(root: str, parts: Parts) -> tuple[int, int]:
    """Return device and inode of the folder below *root* that *parts* name; raise `OSError` if it is not there.

    No link is followed: what a command has put in the place of a folder may lead anywhere.
    """
    fd = os.open(root, O_PATH | FOLDER)
    try:
        for part in parts:
            inner = os.open(part, O_PATH | FOLDER | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
        status = os.fstat(fd)
    finally:
        os.close(fd)
    return status.st_dev, status.st_ino

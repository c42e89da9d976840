"""The files of journals that this process uses, by device and inode, and the lock of the one process that writes each.

The lock is on the file itself, whatever name it was opened by, on a byte that no file has and SQLite never locks. It
is of the kind that belongs to a descriptor (OFD): it goes with its process, and no other descriptor takes it away.

Closing *any* descriptor of a file takes from the process the locks that SQLite has on that file. So the descriptor of
the lock is shared by all who use the file here, and is closed when the last of them has closed its connection.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from stat import S_ISREG
from struct import pack
from threading import Lock
from typing import Final, NamedTuple

from agentrail.adapters.journals.sqlite.file_type import check_kind
from agentrail.errors import JournalLinked, JournalUnusable

CAN_LOCK: Final = sys.platform == "linux" and sys.maxsize > 2**32
"""Whether the kernel has such locks, and a description of them is written as in `_asked`."""

BYTE: Final = 2**62
"""Offset of the byte that is locked."""

HELD: Final = frozenset({errno.EAGAIN, errno.EACCES})
"""Error numbers that mean that another process has the lock."""

MOST_LOOKED_AT: Final = 10_000
"""Files that are searched for another name (hard link) of a journal."""


class Identity(NamedTuple):
    """Device and inode of a file, the same under all its names."""

    device: int
    inode: int


class _File:
    """A file that this process uses."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.uses = 0
        self.descriptor: int | None = None
        self.locked = False


class _Files:
    """All journal files that this process uses."""

    def __init__(self) -> None:
        self.guard = Lock()
        self.by_identity: dict[Identity, _File] = {}
        self.descriptors: set[int] = set()

    def forked(self) -> None:
        """Let go, in a process that was forked, of the locks that belong to the one above it."""
        self.guard = Lock()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.by_identity.clear()
        self.descriptors.clear()


_FILES: Final = _Files()
os.register_at_fork(after_in_child=_FILES.forked)


class FileUse:
    """One use of a journal's file: by its reader, or by its writer. It lasts from before its connection to after it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: Identity | None = None
        self.has_lock = False

    def begin(self) -> None:
        """Use the file; raise `JournalUnusable` if it is no journal, `JournalLinked` if open by another name."""
        if self._identity is not None:
            return
        found = self._path.stat()
        identity = Identity(found.st_dev, found.st_ino)
        with _FILES.guard:
            file = _FILES.by_identity.get(identity)
            if file is None:
                check_kind(self._path)  # with the guard held: nobody here has a connection that it could harm
                file = _File(self._path)
            if found.st_nlink > 1 and S_ISREG(found.st_mode) and not file.locked:
                raise JournalLinked(str(self._path), _other_name(self._path, identity))
            if file.path != self._path:
                raise JournalLinked(str(self._path), f", `{file.path}`")
            file.uses += 1
            _FILES.by_identity[identity] = file
            self._identity = identity

    def end(self) -> None:
        """End this use of the file; its connection must be closed."""
        identity, self._identity = self._identity, None
        if identity is None:
            return
        with _FILES.guard:
            file = _FILES.by_identity.get(identity)
            if file is None:  # of the process that this one was forked from
                return
            if self.has_lock:
                self._unlock(file)
            file.uses -= 1
            if not file.uses:
                del _FILES.by_identity[identity]
                if file.descriptor is not None:
                    release(file.descriptor)

    def lock(self) -> bool:
        """Lock the file for writing; return whether that worked, always true where the system has no such locks."""
        with _FILES.guard:
            file = None if self._identity is None else _FILES.by_identity.get(self._identity)
            if file is None or file.locked:
                return self.has_lock
            if file.descriptor is None:
                file.descriptor = held(os.open(self._path, os.O_RDWR))
            self.has_lock = file.locked = _set(file.descriptor, fcntl.F_WRLCK)
            return self.has_lock

    def check(self) -> None:
        """Raise `JournalUnusable` if the file is not there any more under its name: what is written would be lost."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            raise JournalUnusable(str(self._path), REMOVED) from None
        if Identity(found.st_dev, found.st_ino) != self._identity:
            raise JournalUnusable(str(self._path), REPLACED)
        if not self.has_lock:  # it was taken over, and the process that had the lock may be gone by now
            self.lock()

    def _unlock(self, file: _File) -> None:
        self.has_lock = file.locked = False
        if file.descriptor is not None:
            _set(file.descriptor, fcntl.F_UNLCK)


REMOVED: Final = (
    "it was removed or renamed while it was open; nothing more is written to it: bring it back, or start anew"
)
REPLACED: Final = "another file was put in its place while it was open; nothing more is written to either"


def held(descriptor: int) -> int:
    """Register a descriptor that has a lock, so that it is closed in forked processes."""
    _FILES.descriptors.add(descriptor)
    return descriptor


def release(descriptor: int) -> None:
    """Close a descriptor that had a lock, unless that was done when the process was forked."""
    if descriptor in _FILES.descriptors:
        _FILES.descriptors.remove(descriptor)
        os.close(descriptor)


def _set(descriptor: int, kind: int) -> bool:
    """Lock the file, or unlock it; return whether that could be done."""
    if not CAN_LOCK:
        return True
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, pack("hhqqi4x", kind, os.SEEK_SET, BYTE, 1, 0))
    except OSError as error:
        if error.errno in HELD:
            return False
        if error.errno != errno.EINVAL:  # else the kernel has no such locks, and the lock beside the file is all
            raise
    return True


def _other_name(path: Path, identity: Identity) -> str:
    """Return another name of a file, if it is in its folder or in one beside that; else nothing."""
    beside = chain(path.parent.iterdir(), path.parent.parent.glob("*/*"))
    with suppress(OSError):
        for other in islice(beside, MOST_LOOKED_AT):
            with suppress(OSError):
                found = other.lstat()
                if Identity(found.st_dev, found.st_ino) == identity and other != path:
                    return f", `{other}`"
    return ""

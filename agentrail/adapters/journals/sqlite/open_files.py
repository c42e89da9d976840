"""The journal files that this process has open, by device and inode, and the lock that makes one process the writer.

The lock is on the file itself, so it holds under all names of the file. It covers a byte far after the end of any file,
which SQLite never locks. It is an OFD lock, which belongs to a descriptor: the kernel releases it when the process
ends, and closing another descriptor does not.

SQLite's own locks belong to the process: closing *any* descriptor of the file releases them. So all uses of a file in
this process share the descriptor of the lock. It is closed when the last use has closed its connection.
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
"""Whether the system has OFD locks, in the binary format that `_set` writes."""

BYTE: Final = 2**62
"""Offset of the byte that is locked."""

HELD: Final = frozenset({errno.EAGAIN, errno.EACCES})
"""Error numbers that mean that another process has the lock."""

MOST_LOOKED_AT: Final = 10_000
"""The most files that are searched for another name (hard link) of a journal, which an error message then mentions."""


class Identity(NamedTuple):
    """Device and inode of a file, the same under all its names."""

    device: int
    inode: int


class _File:
    """A journal file that this process uses, with the number of its uses and the descriptor of its lock."""

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
        """Close, in a forked child process, the descriptors of the locks; the locks belong to the parent process."""
        self.guard = Lock()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.by_identity.clear()
        self.descriptors.clear()


_FILES: Final = _Files()
os.register_at_fork(after_in_child=_FILES.forked)


class FileUse:
    """One use of a journal's file, by its reader or its writer: begun before a connection is opened, ended after."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: Identity | None = None
        self.has_lock = False

    def begin(self) -> None:
        """Register this use; raise `JournalUnusable` if it is no journal, `JournalLinked` if it has another name."""
        if self._identity is not None:
            return
        found = self._path.stat()
        identity = Identity(found.st_dev, found.st_ino)
        with _FILES.guard:
            file = _FILES.by_identity.get(identity)
            if file is None:
                check_kind(self._path)  # safe with the guard held: this process has no connection to the file
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
            if file is None:  # the use was begun before this process was forked
                return
            if self.has_lock:
                self._unlock(file)
            file.uses -= 1
            if not file.uses:
                del _FILES.by_identity[identity]
                if file.descriptor is not None:
                    release(file.descriptor)

    def lock(self) -> bool:
        """Lock the file for writing; return whether this use has the lock, always true on systems without OFD locks."""
        with _FILES.guard:
            file = None if self._identity is None else _FILES.by_identity.get(self._identity)
            if file is None or file.locked:
                return self.has_lock
            if file.descriptor is None:
                file.descriptor = held(os.open(self._path, os.O_RDWR))
            self.has_lock = file.locked = _set(file.descriptor, fcntl.F_WRLCK)
            return self.has_lock

    @property
    def descriptor(self) -> int:
        """The descriptor of the lock, which stays open as long as the file is used: closing another releases locks."""
        file = None if self._identity is None else _FILES.by_identity.get(self._identity)
        if file is None or file.descriptor is None:
            raise JournalUnusable(str(self._path), "it is not open for writing")
        return file.descriptor

    def check(self) -> None:
        """Raise `JournalUnusable` if the file was removed, renamed or replaced: what is written to it would be lost."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            raise JournalUnusable(str(self._path), REMOVED) from None
        if Identity(found.st_dev, found.st_ino) != self._identity:
            raise JournalUnusable(str(self._path), REPLACED)
        if not self.has_lock:  # after a take-over, the process that had the lock may have ended by now
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
    """Register a descriptor with a lock, so that it is closed in forked processes; return it."""
    _FILES.descriptors.add(descriptor)
    return descriptor


def release(descriptor: int) -> None:
    """Close a registered descriptor, unless that was done already because this process was forked."""
    if descriptor in _FILES.descriptors:
        _FILES.descriptors.remove(descriptor)
        os.close(descriptor)


def _set(descriptor: int, kind: int) -> bool:
    """Lock or unlock the file, as *kind* says; return false if another process has the lock."""
    if not CAN_LOCK:
        return True
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, pack("hhqqi4x", kind, os.SEEK_SET, BYTE, 1, 0))
    except OSError as error:
        if error.errno in HELD:
            return False
        if error.errno != errno.EINVAL:  # EINVAL: no OFD locks in this kernel; only the lock file protects then
            raise
    return True


def _other_name(path: Path, identity: Identity) -> str:
    """Return another name (hard link) of the file, as a piece of an error message; empty if none is found.

    The file's folder and those next to it are searched.
    """
    beside = chain(path.parent.iterdir(), path.parent.parent.glob("*/*"))
    with suppress(OSError):
        for other in islice(beside, MOST_LOOKED_AT):
            with suppress(OSError):
                found = other.lstat()
                if Identity(found.st_dev, found.st_ino) == identity and other != path:
                    return f", `{other}`"
    return ""

"""`lock_file` and `try_lock_file`: locks on a whole file, which the system releases when the process ends.

`open_lock_file` opens a file that is named after another one, such as `sessions.db.lock`, and `create_private` makes a
new one in its place. A folder that was cloned may have a link of that name, to a file of the user, which would be
emptied.

A lock belongs to the open descriptor. It is advisory where there is `flock`. Windows locks ranges of bytes instead, and
nobody else may read or write them. So one byte is locked there, far behind the content, and the content can be read.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from stat import S_ISREG
from typing import Final, Protocol, cast

from agentrail.adapters.system import HAS_FLOCK
from agentrail.errors import FileFailed

AGAIN: Final = 0.05
"""Seconds after which a lock that another process has is tried again."""

LOCK_WITHIN: Final = 10.0
"""Seconds within which `lock_file` gets the lock: whoever may read a file may lock it, and keep the lock for ever."""

ANOTHER_SYSTEM: Final = "use a folder on another file system"

LOCKS: Final = Path("/proc/locks")
"""Where Linux lists the locks of all processes."""

SOMEBODY: Final = "a process that the system does not name"
"""Stands for the process that has a lock, if it is not known."""

BYTE: Final = 1 << 30
"""Offset of the byte that is locked on Windows."""

ONLY_ITS_OWNERS_FILE: Final = 0o600
"""Mode of a file that only its owner can read and write."""

O_BINARY: Final = getattr(os, "O_BINARY", 0)
"""Flag for files of bytes on Windows, which else changes the ends of lines."""

UNFOLLOWED: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | O_BINARY
"""Flags with which no link is followed, and nothing waits for the other end of a named pipe."""

NOT_PLAIN: Final = "`{}` is a link, no regular file, or not of this user; look where it leads, and remove it"
"""What is wrong with a file that is not opened; it has the name of the file."""


class _Msvcrt(Protocol):
    """The part of the module `msvcrt` of Windows that is used here."""

    LK_NBLCK: int

    def locking(self, descriptor: int, mode: int, count: int, /) -> None:
        """Lock *count* bytes at the position of the file; raise `PermissionError` if another process has locked one."""
        ...


def open_lock_file(path: Path, flags: int = os.O_RDWR | os.O_CREAT, *, owner: int | None = None) -> int:
    """Open the file *path* by *flags* and return its descriptor; a new file is readable by its owner alone.

    Raise `OSError` unless it is a regular file with one name, of this user or of the user *owner*.
    """
    try:
        opened = os.open(path, flags | UNFOLLOWED, ONLY_ITS_OWNERS_FILE)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO} or path.is_symlink():
            raise _not_plain(path) from error
        raise
    status = os.fstat(opened)
    is_ours = sys.platform == "win32" or not hasattr(os, "getuid") or status.st_uid in {os.getuid(), owner}
    if is_ours and S_ISREG(status.st_mode) and status.st_nlink <= 1 and (HAS_FLOCK or not path.is_symlink()):
        return opened
    os.close(opened)
    raise _not_plain(path)


def create_private(path: Path) -> int:
    """Create a file at *path* that only its owner can read, in place of what is there, and return its descriptor.

    A link there is removed, and not followed.
    """
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY, ONLY_ITS_OWNERS_FILE)


def _not_plain(path: Path) -> OSError:
    return OSError(errno.EPERM, NOT_PLAIN.format(path.name), str(path))


def try_lock_file(descriptor: int) -> bool:
    """Lock the open file; return whether that succeeded: another process may have the lock."""
    if sys.platform == "win32" or not HAS_FLOCK:
        return _try_lock_byte(descriptor)
    import fcntl  # noqa: PLC0415 - not there on every system

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_file(descriptor: int, path: Path, to_do: str = ANOTHER_SYSTEM) -> None:
    """Lock the open file, whose path is *path*; wait, in this thread, while another process has the lock.

    Raise `FileFailed`, which names that process, if it does not release the lock within `LOCK_WITHIN` seconds; and if
    its file system has no locks, as a network may offer one: *to_do* then says what to do.
    """
    until = time.monotonic() + LOCK_WITHIN
    while not _locks(descriptor, path, to_do):
        if time.monotonic() >= until:
            raise FileFailed("lock", str(path), f"{flock_holder(descriptor)} has locked it; end that process")
        time.sleep(AGAIN)


def _locks(descriptor: int, path: Path, to_do: str) -> bool:
    """Do as `try_lock_file`; raise `FileFailed` if the file system has no locks."""
    try:
        return try_lock_file(descriptor)
    except OSError as error:
        raise FileFailed("lock", str(path), f"its file system has no locks ({error.strerror}); {to_do}") from error


def flock_holder(descriptor: int) -> str:
    """Return the process that has locked the open file, and its user, as words of an error."""
    pid = process_with_lock(os.fstat(descriptor), "FLOCK", "0")
    if pid is None:
        return SOMEBODY
    try:
        return f"process {pid} of user {Path('/proc', pid).stat().st_uid}"
    except OSError:
        return f"process {pid}"


def process_with_lock(status: os.stat_result, kind: str, first_byte: str) -> str | None:
    """Return the id of the process that has a lock of this *kind* from *first_byte* on; `None` if it is not known."""
    if sys.platform != "linux":
        return None
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None
    # With the device: a file of another disk may have the same inode.
    # tests/adapters/journals/test_locks.py::test_a_lock_of_another_disk_is_not_that_of_the_journal
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in lines:
        fields = line.split()  # number, kind, ADVISORY, access, process, device:inode, first and last byte
        if fields[1] == kind and fields[5] == file and fields[6] == first_byte:
            return fields[4]
    return None


def _try_lock_byte(descriptor: int) -> bool:
    windows = cast("_Msvcrt", import_module("msvcrt"))
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, BYTE, os.SEEK_SET)
    try:
        windows.locking(descriptor, windows.LK_NBLCK, 1)
    except PermissionError:
        return False
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)
    return True

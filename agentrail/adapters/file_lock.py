"""`lock_file` and `try_lock_file`: locks on a whole file, which the system releases when the process ends.

`open_lock_file` opens a file that is named after another one, such as `sessions.db.lock`. A folder that was cloned may
have a link of that name, to a file of the user, which would be emptied.

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

AGAIN: Final = 0.05
"""Seconds after which a lock that another process has is tried again, where the system does not wait for it."""

BYTE: Final = 1 << 30
"""Offset of the byte that is locked on Windows."""


ONLY_ITS_OWNERS_FILE: Final = 0o600
"""Mode of a file that only its owner can read and write."""

O_BINARY: Final = getattr(os, "O_BINARY", 0)
"""Flag for files of bytes on Windows, which else changes the ends of lines."""

UNFOLLOWED: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | O_BINARY
"""Flags with which no link is followed, and nothing waits for the other end of a named pipe."""

NOT_PLAIN: Final = "`{}` is a link, no regular file, or not of this user; look where it leads, and remove it"


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


def lock_file(descriptor: int) -> None:
    """Lock the open file; wait, in this thread, while another process has the lock."""
    while not try_lock_file(descriptor):
        time.sleep(AGAIN)


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

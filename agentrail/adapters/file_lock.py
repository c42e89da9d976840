"""`lock_file` and `try_lock_file`: locks on a whole file, which the system releases when the process ends.

A lock belongs to the open descriptor. It is advisory where there is `flock`. Windows locks ranges of bytes instead, and
nobody else may read or write them. So one byte is locked there, far behind the content, and the content can be read.
"""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from typing import Final, Protocol, cast

from agentrail.adapters.system import HAS_FLOCK

AGAIN: Final = 0.05
"""Seconds after which a lock that another process has is tried again, where the system does not wait for it."""

BYTE: Final = 1 << 30
"""Offset of the byte that is locked on Windows."""


class _Msvcrt(Protocol):
    """The part of the module `msvcrt` of Windows that is used here."""

    LK_NBLCK: int

    def locking(self, descriptor: int, mode: int, count: int, /) -> None:
        """Lock *count* bytes at the position of the file; raise `PermissionError` if another process has locked one."""
        ...


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

"""Locks single bytes of a file with OFD locks, where the system has them."""

from __future__ import annotations

import errno
import os
import sys
from struct import pack, unpack_from
from typing import Final

from agentrail.adapters.journals.sql.journal_files import CAN_LOCK

NOT_GRANTED: Final = frozenset({errno.EAGAIN, errno.EACCES, errno.EINVAL})
"""Error numbers that mean that another process has the lock, or that the kernel has no such locks."""


def lock_byte(descriptor: int, offset: int, *, is_shared: bool = False) -> None:
    """Lock the byte at offset *offset* until *descriptor* is closed; no-op if another process has the lock.

    Several processes may have a lock that *is_shared*.
    """
    if sys.platform != "linux" or not CAN_LOCK:
        return
    import fcntl  # noqa: PLC0415 - not there on every system

    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock(fcntl.F_RDLCK if is_shared else fcntl.F_WRLCK, offset))
    except OSError as error:
        if error.errno not in NOT_GRANTED:
            raise


def is_locked(descriptor: int, offset: int, count: int = 1) -> bool | None:
    """Whether another process has locked one of *count* bytes from *offset* on; `None` if the system cannot tell."""
    if sys.platform != "linux" or not CAN_LOCK:
        return None
    import fcntl  # noqa: PLC0415 - not there on every system

    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock(fcntl.F_WRLCK, offset, count))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return None
    (kind,) = unpack_from("h", answer)
    return bool(kind != fcntl.F_UNLCK)


def _lock(kind: int, offset: int, count: int = 1) -> bytes:
    """Return the kernel's description of a lock of bytes."""
    return pack("hhqqi4x", kind, os.SEEK_SET, offset, count, 0)

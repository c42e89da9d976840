"""`lock_file` and `try_lock_file`: locks on a whole file, which the system releases when the process ends.

A lock belongs to the open descriptor. It is advisory where there is `flock`. Windows locks ranges of bytes instead, and
nobody else may read or write them. So one byte is locked there, far behind the content, and the content can be read.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import Final

AGAIN: Final = 0.05
"""Seconds after which a lock that another process has is tried again, where the system does not wait for it."""

BYTE: Final = 1 << 30
"""Offset of the byte that is locked on Windows."""

if sys.platform == "win32":
    import msvcrt

    def try_lock_file(descriptor: int) -> bool:
        """Lock the open file; return whether that succeeded: another process may have the lock."""
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            os.lseek(descriptor, position, os.SEEK_SET)
        return True

    def lock_file(descriptor: int) -> None:
        """Lock the open file; wait, in this thread, while another process has the lock."""
        while not try_lock_file(descriptor):
            time.sleep(AGAIN)

else:
    import fcntl

    def try_lock_file(descriptor: int) -> bool:
        """Lock the open file; return whether that succeeded: another process may have the lock."""
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def lock_file(descriptor: int) -> None:
        """Lock the open file; wait, in this thread, while another process has the lock."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)

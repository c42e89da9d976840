"""Whether a file or folder is that of this user alone, as far as the system says so in its status."""

from __future__ import annotations

import os
import stat
import sys
from typing import Final

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""The bits of a mode that let others in."""

ONLY_OF_THE_USER: Final = 0o600
"""The mode of a new file that only this user can read and write."""

NOT_OURS: Final = "it is not of this user alone"
ANOTHER_PLACE: Final = "use a journal in a folder of your own"


def is_own(status: os.stat_result) -> bool:
    """Whether the file is that of this user; Windows does not say so: there, access lists of the folder decide."""
    return sys.platform == "win32" or not hasattr(os, "getuid") or status.st_uid == os.getuid()


def is_own_folder(status: os.stat_result) -> bool:
    """Whether it is a folder that only this user can enter."""
    return stat.S_ISDIR(status.st_mode) and _is_private(status)


def is_own_file(status: os.stat_result) -> bool:
    """Whether it is a plain file that only this user can read."""
    return stat.S_ISREG(status.st_mode) and _is_private(status)


def _is_private(status: os.stat_result) -> bool:
    return is_own(status) and (sys.platform == "win32" or not status.st_mode & OTHERS)

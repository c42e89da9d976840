"""What the system lets a program do, where systems differ. What the constants say, Windows does not let it do."""

from __future__ import annotations

import os
import socket
import sys
from importlib.util import find_spec
from typing import Final

HAS_FLOCK: Final = sys.platform != "win32" and find_spec("fcntl") is not None
"""Whether whole files can be locked, by `flock`."""

HAS_FOLDERS: Final = sys.platform != "win32" and hasattr(os, "O_DIRECTORY") and hasattr(os, "O_NOFOLLOW")
"""Whether folders can be opened, and files below an open folder."""

HAS_UNIX_SOCKETS: Final = sys.platform != "win32" and hasattr(socket, "AF_UNIX")
"""Whether Python can use unix sockets."""

HAS_INHERITED_SOCKETS: Final = HAS_UNIX_SOCKETS and hasattr(socket, "SO_REUSEPORT")
"""Whether a process can give its sockets to those that it starts, and keep a port free for them."""


def core_count() -> int:
    """Return on how many cores this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

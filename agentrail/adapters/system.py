"""What the system lets a program do, where systems differ; Windows lets it do none of this."""

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

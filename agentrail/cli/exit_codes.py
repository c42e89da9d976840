"""How a command ends, and the environment variables that it obeys: what is there before anything else is imported."""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO

WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130

STOP_WITHIN: Final = 3.0
"""The most seconds that the program may take to end; short, because a person waits."""

KEPT_STOP_WITHIN: Final = 6.0
"""The same for one that keeps its sessions: it may serve them to others, which go on with them, or the next one does.
"""

DEBUG: Final = "AGENTRAIL_DEBUG"
"""The variable that has errors printed with their tracebacks; the option `--debug` sets it."""

COMPLETE: Final = "_AGENTRAIL_COMPLETE"
"""The variable by which the script of a shell asks how its words may go on."""


def leave_unread(*others: TextIO) -> int:
    """Return the exit code if nobody reads standard output any more, and have nothing else fail because of that.

    *others* are streams that lead there too.
    """
    for stream in (sys.stdout, *others):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return 1

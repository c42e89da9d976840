"""`allow_open_files`: lets the process of a server open as many files as it may have connections."""

from __future__ import annotations

import logging
import sys
from typing import Final

log = logging.getLogger("agentrail.http")

OTHER_FILES: Final = 512
"""Descriptors for all besides connections: journals, programs in sandboxes, connections to models."""

TOO_FEW: Final = (
    "this process may open %d files, and needs up to %d for its connections: when none is left, nobody is heard; raise "
    "the limit (`LimitNOFILE`, `ulimit -n`), or set `connections` to less"
)


def allow_open_files(connections: int) -> None:
    """Raise the limit of open files of this process to what so many *connections* need; log it if that is refused.

    Most shells and services begin with 1,024. That would be met before `connections` is, so that no connection would
    be closed for another: clients that say nothing could keep all others out, and whoever asks for the health of the
    host.
    """
    if sys.platform == "win32":
        return
    try:
        import resource  # noqa: PLC0415 - not there on every system
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # macOS has another limit besides the hard one
        most = soft
    if most < needed:
        log.warning(TOO_FEW, most, needed)

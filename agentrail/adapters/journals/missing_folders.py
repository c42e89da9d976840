"""Says that the folder of a file is missing, and how to make it."""

from __future__ import annotations

import os
from pathlib import Path


def missing_folder(path: Path) -> str | None:
    """Return that *path* has no folder to be in, and what to do; `None` if it has one."""
    folder = path.parent
    if os.path.isdir(folder):  # noqa: PTH112 - no exception for a path that no system call takes
        return None
    return f"there is no folder `{folder}`; make it with `mkdir -p`, or give another path"

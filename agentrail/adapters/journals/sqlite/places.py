"""Where the journal is, and who may look into it."""

from __future__ import annotations

import os
from pathlib import Path

HOME = "AGENTRAIL_HOME"
"""The environment variable that moves everything that is kept per user."""

NAME = "agentrail.db"
ONLY_ITS_OWNER = 0o700
ONLY_ITS_OWNERS_FILE = 0o600


def home() -> Path:
    """Return the folder of what is kept per user."""
    said = os.environ.get(HOME)
    if said:
        return Path(said).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "agentrail"


def make_file(path: Path) -> None:
    """Make an empty file that only its owner can read, with the folders above it, unless it is there."""
    for folder in reversed([folder for folder in path.parents if not folder.exists()]):
        folder.mkdir(mode=ONLY_ITS_OWNER, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, ONLY_ITS_OWNERS_FILE))
    except FileExistsError:
        return
    opened = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(opened)  # a file whose name is not on the disk is lost with all that is in it
    finally:
        os.close(opened)

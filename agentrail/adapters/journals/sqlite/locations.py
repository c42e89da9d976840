"""Where the journal is, and who may look into it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from agentrail.errors import WrongType
from agentrail.values.foreign import mended, shown

HOME = "AGENTRAIL_HOME"
"""The environment variable that moves everything that is kept per user."""

NAME = "agentrail.db"
A_PATH = "the path of a file: text without a NUL or half a surrogate pair, or a `Path`"
ONLY_ITS_OWNER = 0o700
ONLY_ITS_OWNERS_FILE = 0o600


def home() -> Path:
    """Return the folder of what is kept per user."""
    said = os.environ.get(HOME)
    if said:
        return Path(said).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "agentrail"


def place_of(path: object) -> Path:
    """Return the file that *path* leads to, by default that of the user; raise `WrongType` for what leads to none."""
    said = home() / NAME if path is None else path
    text: object = os.fspath(cast("str | os.PathLike[str]", said)) if isinstance(said, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or mended(text) != text:
        raise WrongType("path", shown(path if text is None else text), A_PATH)
    place = os.path.realpath(text)  # links lead to one file
    if mended(place) != place:
        raise WrongType("path", shown(place), A_PATH)
    return Path(place)


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

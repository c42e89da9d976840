"""The file of a journal: where it is, that it has one name, and who writes it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple, cast

from agentrail.adapters.file_lock import ONLY_ITS_OWNERS_FILE, process_with_lock
from agentrail.adapters.system import HAS_FLOCK, HAS_FOLDERS
from agentrail.adapters.user_folders import home
from agentrail.errors import WrongType
from agentrail.values.untrusted_values import brief, mended

CAN_LOCK: Final = sys.platform == "linux" and sys.maxsize > 2**32 and HAS_FLOCK
"""Whether the system has OFD locks, in the binary format that `byte_locks` writes."""

MAX_LOOKED_AT: Final = 10_000
"""The most files that are searched for another name (hard link) of a journal, which an error message then mentions."""


class FileIdentity(NamedTuple):
    """Device and inode of a file, the same under all its names."""

    device: int
    inode: int


REMOVED: Final = (
    "it was removed or renamed while it was open; nothing more is written to it: bring it back, or start anew"
)
REPLACED: Final = "another file was put in its place while it was open; nothing more is written to either"


def name_beside(path: Path, identity: FileIdentity) -> str:
    """Return another name (hard link) of the file, as a piece of an error message; empty if none is found.

    The file's folder and those next to it are searched.
    """
    beside = chain(path.parent.iterdir(), path.parent.parent.glob("*/*"))
    with suppress(OSError):
        for other in islice(beside, MAX_LOOKED_AT):
            with suppress(OSError):
                status = other.lstat()
                if FileIdentity(status.st_dev, status.st_ino) == identity and other != path:
                    return f", `{other}`"
    return ""


NAME = "agentrail.db"
A_PATH = "the path of a file: text without a NUL or half a surrogate pair, or a `Path`"
ONLY_ITS_OWNER = 0o700


def journal_path(path: object) -> Path:
    """Return *path* with links resolved, by default the user's journal; raise `WrongType` if it cannot be a path."""
    path_ = home() / NAME if path is None else path
    text: object = os.fspath(cast("str | os.PathLike[str]", path_)) if isinstance(path_, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or mended(text) != text:
        raise WrongType("path", brief(path if text is None else text), A_PATH)
    path = os.path.realpath(text)  # `resolve`, so that two links to one file become the same path
    if mended(path) != path:
        raise WrongType("path", brief(path), A_PATH)
    return Path(path)


def make_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless the file exists.

    The user's own folder is made if it is missing. Another one may be a typing error, and its journal an empty one.
    """
    if path.parent == Path(os.path.realpath(home())):
        for folder in reversed([folder for folder in path.parents if not folder.exists()]):
            folder.mkdir(mode=ONLY_ITS_OWNER, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, ONLY_ITS_OWNERS_FILE))
    except FileExistsError:
        return
    if not HAS_FOLDERS:  # NTFS keeps a journal of its own for entries
        return
    opened = os.open(path.parent, os.O_RDONLY)
    try:
        # writes the folder's entry for the file to the disk: without it, a power cut could lose the file
        os.fsync(opened)
    finally:
        os.close(opened)


WRITE_LOCK: Final = "120"
"""The byte of a `-shm` file that the connection which writes has locked: see SQLite's page about the WAL index."""


def write_lock_holder(path: Path) -> str | None:
    """Return the process that has SQLite's lock for writing the journal *path*; `None` if the system does not say."""
    try:
        pid = process_with_lock(path.with_name(f"{path.name}-shm").stat(), "POSIX", WRITE_LOCK)
    except OSError:
        return None
    return None if pid is None else f"process {pid}"

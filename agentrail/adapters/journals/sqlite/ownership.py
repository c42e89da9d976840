"""`Ownership`: makes one process the only writer of a journal, as long as it lives or until another takes over.

There are two locks, both the kernel's, which go with the process that holds them, however that ends.

The one on a file beside the journal says who the owner is, and can be taken over: a new file is put in its place, so
the old holder's lock says nothing any more. That happens inside a write transaction, so no two do it at a time. The one
on the journal itself finds whoever has it open under another name; after a take-over, the new owner gets it when the
old one is gone. Both are taken before SQLite opens anything: opened under two names, the journal has two logs.

Also finds the journal's path, and creates its file readable by its owner alone.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final, cast

from agentrail.adapters.journals.sqlite.open_files import FileUse, held, release
from agentrail.errors import JournalInUse, JournalLinked, WrongType
from agentrail.values.foreign import mended, shown

HOME = "AGENTRAIL_HOME"
"""Environment variable with the folder for all files that are kept per user."""

NAME = "agentrail.db"
A_PATH = "the path of a file: text without a NUL or half a surrogate pair, or a `Path`"
ONLY_ITS_OWNER = 0o700
ONLY_ITS_OWNERS_FILE = 0o600


def home() -> Path:
    """Return the folder for files that are kept per user."""
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


LONGEST_NAME: Final = 200
NAMELESS: Final = "its owner has not said who it is"


class Ownership:
    """The locks of one journal, held or not."""

    def __init__(self, path: Path) -> None:
        self._journal = path
        self._path = path.with_name(f"{path.name}.lock")
        self._file = FileUse(path)
        self._held: int | None = None

    def enter(self, *, over: bool) -> None:
        """Lock the journal before it is opened; raise `JournalInUse` if it is written, unless it is to be taken *over*.

        The lock beside it comes first: whoever has the one on the journal has that too, if the name is the same.
        """
        self._file.begin()
        beside = self._locked(over=over)
        if beside is not None:
            self._held = beside
        if not self._file.lock() and beside is not None:
            raise JournalLinked(str(self._journal), ", under which another process has it open")

    def take(self, *, over: bool) -> None:
        """Become the owner, inside a write transaction; raise as `enter` does."""
        if self._held is not None and not self._is_in_place(self._held):  # it was taken over meanwhile
            release(self._held)
            self._held = None
        if self._held is None:
            self._held = self._locked(over=over) or self._replace()
        os.truncate(self._held, 0)
        os.write(self._held, f"process {os.getpid()}".encode())

    def check(self) -> None:
        """Raise `JournalUnusable` if the journal is not there any more under its name."""
        self._file.check()

    def release(self) -> None:
        """Release the locks; the connection must be closed."""
        beside, self._held = self._held, None
        if beside is not None:
            release(beside)
        self._file.end()

    def _locked(self, *, over: bool) -> int | None:
        """Return the file beside the journal, locked; `None` if it is another's and may be replaced."""
        beside = held(os.open(self._path, os.O_RDWR | os.O_CREAT, ONLY_ITS_OWNERS_FILE))
        try:
            fcntl.flock(beside, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(beside, LONGEST_NAME).decode(errors="replace")
            release(beside)
            if not over:
                raise JournalInUse(str(self._journal), owner or NAMELESS) from None
            return None
        return beside

    def _is_in_place(self, beside: int) -> bool:
        """Whether the locked file is still the one beside the journal: a take-over replaces it."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(beside))
        except FileNotFoundError:
            return False

    def _replace(self) -> int:
        """Put a new file in the place of the one that is locked, and lock it."""
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        beside = held(os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, ONLY_ITS_OWNERS_FILE))
        fcntl.flock(beside, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.replace(self._path)
        return beside

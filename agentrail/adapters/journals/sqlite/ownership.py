"""`Ownership`: makes one process the only writer of a journal, until the process ends or another takes over.

There are two locks. The kernel releases both when the process that holds them ends, however it ends.

The first is on a lock file next to the journal, which names the owner. It can be taken over: the new owner replaces the
lock file, so the old lock is on a file that no longer counts. This happens inside a write transaction, so two processes
cannot do it at the same time.

The second is on the journal itself, and shows whether another process has the journal open under another name. After a
take-over the new owner gets it when the old owner has ended. Both locks are taken before SQLite opens the file: if it
were opened under two names, it would have two write-ahead logs.

This module also finds the journal's path, and creates its file readable by its owner alone.
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
"""Environment variable with the folder for files that agentrail keeps per user."""

NAME = "agentrail.db"
A_PATH = "the path of a file: text without a NUL or half a surrogate pair, or a `Path`"
ONLY_ITS_OWNER = 0o700
ONLY_ITS_OWNERS_FILE = 0o600


def home() -> Path:
    """Return the folder for files that agentrail keeps per user."""
    said = os.environ.get(HOME)
    if said:
        return Path(said).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "agentrail"


def place_of(path: object) -> Path:
    """Return *path* with links resolved, by default the user's journal; raise `WrongType` if it cannot be a path."""
    said = home() / NAME if path is None else path
    text: object = os.fspath(cast("str | os.PathLike[str]", said)) if isinstance(said, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or mended(text) != text:
        raise WrongType("path", shown(path if text is None else text), A_PATH)
    place = os.path.realpath(text)  # two links to one file become the same path
    if mended(place) != place:
        raise WrongType("path", shown(place), A_PATH)
    return Path(place)


def make_file(path: Path) -> None:
    """Create an empty file that only its owner can read, and missing folders above it, unless the file exists."""
    for folder in reversed([folder for folder in path.parents if not folder.exists()]):
        folder.mkdir(mode=ONLY_ITS_OWNER, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, ONLY_ITS_OWNERS_FILE))
    except FileExistsError:
        return
    opened = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(opened)  # writes the file's name to the disk: after a power cut the file could not be found without it
    finally:
        os.close(opened)


LONGEST_NAME: Final = 200
NAMELESS: Final = "its owner has not said who it is"
OURSELVES: Final = "this process, by another `SqliteJournal`, which is to be closed first"


def _name(pid: int | str) -> str:
    """Return the text that a process writes into the lock file of its journals."""
    return f"process {pid}"


def _ours() -> str:
    return _name(os.getpid())


LOCKS: Final = Path("/proc/locks")
"""Where Linux lists the locks of all processes."""

WRITE_LOCK: Final = "120"
"""The byte of a `-shm` file that the connection which writes has locked: see SQLite's page about the WAL index."""


def write_lock_holder(path: Path) -> str | None:
    """Return the process that has SQLite's lock for writing the journal *path*; `None` if the system does not say."""
    try:
        inode = path.with_name(f"{path.name}-shm").stat().st_ino
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()  # number, kind, ADVISORY, access, process, device:inode, first and last byte
        if fields[1] == "POSIX" and fields[5].endswith(f":{inode}") and fields[6] == WRITE_LOCK:
            return _name(fields[4])
    return None


class Ownership:
    """The two locks of one journal."""

    def __init__(self, path: Path) -> None:
        self._journal = path
        self._path = path.with_name(f"{path.name}.lock")
        self._file = FileUse(path)
        self._held: int | None = None
        self.rival = ""
        """The process that has the lock which this one takes over, as it calls itself; empty if none has it."""

    def enter(self, *, over: bool) -> None:
        """Take the locks before the journal is opened; raise `JournalInUse` if a process writes it and not *over*.

        The lock file comes first. A process that locked the journal under the same name has the lock file's lock too.
        So if only the journal itself is locked, it is open under another name, which raises `JournalLinked`.
        """
        self._file.begin()
        beside = self._locked(over=over)
        if beside is not None:
            self._held = beside
        if not self._file.lock() and beside is not None:
            raise JournalLinked(str(self._journal), ", under which another process has it open")

    def take(self, *, over: bool) -> None:
        """Become the owner, inside a write transaction; raise as `enter` does."""
        if self._held is not None and not self._is_in_place(self._held):  # another process took over meanwhile
            release(self._held)
            self._held = None
        if self._held is None:
            self._held = self._locked(over=over) or self._replace()
        os.truncate(self._held, 0)
        os.write(self._held, _ours().encode())

    @property
    def descriptor(self) -> int:
        """A descriptor of the journal's file, for reading and writing."""
        return self._file.descriptor

    def check(self) -> None:
        """Raise `JournalUnusable` if the journal's file was removed, renamed or replaced."""
        self._file.check()

    def release(self) -> None:
        """Release the locks; the connection must be closed."""
        beside, self._held = self._held, None
        if beside is not None:
            release(beside)
        self._file.end()

    def _locked(self, *, over: bool) -> int | None:
        """Lock the lock file and return its descriptor.

        If another process has the lock, return `None` if it may be taken *over*, else raise `JournalInUse`.
        """
        beside = held(os.open(self._path, os.O_RDWR | os.O_CREAT, ONLY_ITS_OWNERS_FILE))
        try:
            fcntl.flock(beside, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(beside, LONGEST_NAME).decode(errors="replace")
            release(beside)
            self.rival = OURSELVES if owner == _ours() else owner or NAMELESS
            if not over:
                raise JournalInUse(str(self._journal), self.rival) from None
            return None
        return beside

    def _is_in_place(self, beside: int) -> bool:
        """Whether the locked file *beside* is still the journal's lock file; a take-over replaces it."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(beside))
        except FileNotFoundError:
            return False

    def _replace(self) -> int:
        """Replace the lock file, which another process has locked, by a new one; lock it and return its descriptor."""
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        beside = held(os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, ONLY_ITS_OWNERS_FILE))
        fcntl.flock(beside, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.replace(self._path)
        return beside

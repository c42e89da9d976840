"""`Ownership`: makes one process the only writer of a journal, until the process ends or another takes over.

There are two locks. The kernel releases both when the process that holds them ends, however it ends.

The first is on a lock file next to the journal, which names the owner. It can be taken over: the new owner replaces the
lock file, so the old lock is on a file that no longer counts. This happens inside a write transaction, so two processes
cannot do it at the same time.

The second is on the journal itself, and shows whether another process has the journal open under another name. After a
take-over the new owner gets it when the old owner has ended. Both locks are taken before SQLite opens the file: if it
were opened under two names, it would have two write-ahead logs.

This module also finds the journal's path, and creates its file readable by its owner alone.

The journal files that this process has open, by device and inode, and the lock that makes one process the writer.

The lock is on the file itself, so it holds under all names of the file. It covers a byte far after the end of any file,
which SQLite never locks. It is an OFD lock, which belongs to a descriptor: the kernel releases it when the process
ends, and closing another descriptor does not.

SQLite's own locks belong to the process: closing *any* descriptor of the file releases them. So all uses of a file in
this process share the descriptor of the lock. It is closed when the last use has closed its connection.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from stat import S_ISREG
from struct import pack, unpack_from
from threading import Lock
from typing import Final, NamedTuple, cast

from agentrail.adapters.file_lock import (
    O_BINARY,
    ONLY_ITS_OWNERS_FILE,
    create_private,
    open_lock_file,
    process_with_lock,
    try_lock_file,
)
from agentrail.adapters.journals.sqlite.file_type import check_kind
from agentrail.adapters.system import HAS_FLOCK, HAS_FOLDERS
from agentrail.adapters.user_folders import begin_journal, end_journal, home
from agentrail.errors import JournalInUse, JournalLinked, JournalUnusable, WrongType
from agentrail.values.untrusted_values import brief, mended

CAN_LOCK: Final = sys.platform == "linux" and sys.maxsize > 2**32 and HAS_FLOCK
"""Whether the system has OFD locks, in the binary format that `_set` writes."""

BYTE: Final = 2**62
"""Offset of the byte that is locked."""

CAN_TAKE_OVER: Final = HAS_FLOCK
"""Whether the lock file of another process can be replaced: Windows replaces and removes no file that is open."""

HELD: Final = frozenset({errno.EAGAIN, errno.EACCES})
"""Error numbers that mean that another process has the lock."""

MAX_LOOKED_AT: Final = 10_000
"""The most files that are searched for another name (hard link) of a journal, which an error message then mentions."""


class FileIdentity(NamedTuple):
    """Device and inode of a file, the same under all its names."""

    device: int
    inode: int


class _File:
    """A journal file that this process uses, with the number of its uses and the descriptor of its lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.uses = 0
        self.descriptor: int | None = None
        self.locked = False


class _Files:
    """All journal files that this process uses."""

    def __init__(self) -> None:
        self.guard = Lock()
        self.by_identity: dict[FileIdentity, _File] = {}
        self.descriptors: set[int] = set()

    def forked(self) -> None:
        """Close, in a forked child process, the descriptors of the locks; the locks belong to the parent process."""
        self.guard = Lock()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.by_identity.clear()
        self.descriptors.clear()


_FILES: Final = _Files()
if sys.platform != "win32" and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FILES.forked)


class FileUse:
    """One use of a journal's file, by its reader or its writer: begun before a connection is opened, ended after."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: FileIdentity | None = None
        self.has_lock = False

    def begin(self) -> None:
        """Register this use; raise `JournalUnusable` if it is no journal, `JournalLinked` if it has another name."""
        if self._identity is not None:
            return
        status = self._path.stat()
        identity = FileIdentity(status.st_dev, status.st_ino)
        with _FILES.guard:
            file = _FILES.by_identity.get(identity)
            if file is None:
                # safe here: under the guard, this process has no connection to the file whose locks a close would
                # release
                check_kind(self._path)
                file = _File(self._path)
            if status.st_nlink > 1 and S_ISREG(status.st_mode) and not file.locked:
                raise JournalLinked(str(self._path), name_beside(self._path, identity))
            if file.path != self._path:
                raise JournalLinked(str(self._path), f", `{file.path}`")
            file.uses += 1
            _FILES.by_identity[identity] = file
            self._identity = identity
            begin_journal(self._path)

    def end(self) -> None:
        """End this use of the file; its connection must be closed."""
        identity, self._identity = self._identity, None
        if identity is None:
            return
        with _FILES.guard:
            file = _FILES.by_identity.get(identity)
            if file is None:  # this is a forked child: `forked` has emptied the table
                return
            if self.has_lock:
                self._unlock(file)
            file.uses -= 1
            end_journal(self._path)
            if not file.uses:
                del _FILES.by_identity[identity]
                if file.descriptor is not None:
                    release(file.descriptor)

    def lock(self) -> bool:
        """Lock the file for writing; return whether this use has the lock, always true on systems without OFD locks."""
        with _FILES.guard:
            file = None if self._identity is None else _FILES.by_identity.get(self._identity)
            if file is None or file.locked:
                return self.has_lock
            if file.descriptor is None:
                file.descriptor = register_lock(os.open(self._path, os.O_RDWR | O_BINARY))
            self.has_lock = file.locked = _set(file.descriptor, is_locked=True)
            return self.has_lock

    def other_writer(self) -> str | None:
        """Return the process that has the file open for writing; `None` if there is none, or the system cannot say."""
        with _FILES.guard:
            file = None if self._identity is None else _FILES.by_identity.get(self._identity)
            if file is None or not CAN_LOCK:
                return None
            if file.descriptor is None:
                file.descriptor = register_lock(_open_for_lock(self._path))
            if not _is_locked(file.descriptor):
                return None
        with suppress(OSError):
            beside = self._path.with_name(f"{self._path.name}.lock")
            opened = open_lock_file(beside, os.O_RDONLY, owner=self._path.stat().st_uid)
            with os.fdopen(opened, errors="replace") as lock:
                return lock.read(MAX_NAME) or NAMELESS
        return NAMELESS

    @property
    def descriptor(self) -> int:
        """The descriptor of the lock, which stays open as long as the file is used: closing another releases locks."""
        file = None if self._identity is None else _FILES.by_identity.get(self._identity)
        if file is None or file.descriptor is None:
            raise JournalUnusable(str(self._path), "it is not open for writing")
        return file.descriptor

    def check(self) -> None:
        """Raise `JournalUnusable` if the file was removed, renamed or replaced: what is written to it would be lost."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            raise JournalUnusable(str(self._path), REMOVED) from None
        if FileIdentity(status.st_dev, status.st_ino) != self._identity:
            raise JournalUnusable(str(self._path), REPLACED)
        if not self.has_lock:  # after a take-over, the process that had the lock may have ended by now
            self.lock()

    def _unlock(self, file: _File) -> None:
        self.has_lock = file.locked = False
        if file.descriptor is not None:
            _set(file.descriptor, is_locked=False)


REMOVED: Final = (
    "it was removed or renamed while it was open; nothing more is written to it: bring it back, or start anew"
)
REPLACED: Final = "another file was put in its place while it was open; nothing more is written to either"


def register_lock(descriptor: int) -> int:
    """Register a descriptor with a lock, so that it is closed in forked processes; return it."""
    _FILES.descriptors.add(descriptor)
    return descriptor


def release(descriptor: int) -> None:
    """Close a registered descriptor, unless that was done already because this process was forked."""
    if descriptor in _FILES.descriptors:
        _FILES.descriptors.remove(descriptor)
        os.close(descriptor)


def _set(descriptor: int, *, is_locked: bool) -> bool:
    """Lock or unlock the file; return false if another process has the lock."""
    if sys.platform != "linux" or not CAN_LOCK:
        return True
    import fcntl  # noqa: PLC0415 - not there on every system

    kind = fcntl.F_WRLCK if is_locked else fcntl.F_UNLCK
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock_of(kind))
    except OSError as error:
        if error.errno in HELD:
            return False
        if error.errno != errno.EINVAL:  # EINVAL: no OFD locks in this kernel; only the lock file protects then
            raise
    return True


def _is_locked(descriptor: int) -> bool:
    """Whether another process has the lock; the file is not locked for the question."""
    if sys.platform != "linux":
        return False
    import fcntl  # noqa: PLC0415 - not there on every system

    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock_of(fcntl.F_WRLCK))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    (kind,) = unpack_from("h", answer)
    return bool(kind != fcntl.F_UNLCK)


def _lock_of(kind: int) -> bytes:
    """Return the kernel's description of a lock of the byte."""
    return pack("hhqqi4x", kind, os.SEEK_SET, BYTE, 1, 0)


def _open_for_lock(path: Path) -> int:
    """Open the file to ask for its lock; one that cannot be written is not locked later."""
    try:
        return os.open(path, os.O_RDWR | O_BINARY)
    except OSError:
        return os.open(path, os.O_RDONLY | O_BINARY)


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


def place_of(path: object) -> Path:
    """Return *path* with links resolved, by default the user's journal; raise `WrongType` if it cannot be a path."""
    path_ = home() / NAME if path is None else path
    text: object = os.fspath(cast("str | os.PathLike[str]", path_)) if isinstance(path_, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or mended(text) != text:
        raise WrongType("path", brief(path if text is None else text), A_PATH)
    place = os.path.realpath(text)  # `resolve`, so that two links to one file become the same path
    if mended(place) != place:
        raise WrongType("path", brief(place), A_PATH)
    return Path(place)


def make_file(path: Path) -> None:
    """Create an empty file that only its owner can read, and missing folders above it, unless the file exists."""
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


MAX_NAME: Final = 200
NAMELESS: Final = "its owner has not said who it is"
NOT_TAKEN_OVER: Final = "which is to be stopped: Windows replaces no file that is open"
OURSELVES: Final = "this process, by another `SqliteJournal`, which is to be closed first"


def _name(pid: int | str) -> str:
    """Return the text that a process writes into the lock file of its journals."""
    return f"process {pid}"


def _ours() -> str:
    return _name(os.getpid())


WRITE_LOCK: Final = "120"
"""The byte of a `-shm` file that the connection which writes has locked: see SQLite's page about the WAL index."""


def write_lock_holder(path: Path) -> str | None:
    """Return the process that has SQLite's lock for writing the journal *path*; `None` if the system does not say."""
    try:
        pid = process_with_lock(path.with_name(f"{path.name}-shm").stat(), "POSIX", WRITE_LOCK)
    except OSError:
        return None
    return None if pid is None else _name(pid)


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
        """Take the locks before the journal is opened; raise `JournalInUse` if a process writes it.

        With *over*, the locks are taken over from that process instead.

        The lock file comes first. A process that locked the journal under the same name has the lock file's lock too.
        So if only the journal itself is locked, it is open under another name, which raises `JournalLinked`.
        """
        self._file.begin()
        beside = self._lock(over=over)
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
            self._held = self._lock(over=over) or self._replace()
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

    def _lock(self, *, over: bool) -> int | None:
        """Lock the lock file and return its descriptor.

        If another process has the lock, return `None` if it may, and can, be taken *over*, else raise `JournalInUse`.
        """
        beside = register_lock(open_lock_file(self._path, owner=self._journal.stat().st_uid))
        if try_lock_file(beside):
            return beside
        owner = os.read(beside, MAX_NAME).decode(errors="replace")
        release(beside)
        self.rival = OURSELVES if owner == _ours() else owner or NAMELESS
        if over and not CAN_TAKE_OVER:
            raise JournalInUse(str(self._journal), f"{self.rival}, {NOT_TAKEN_OVER}")
        if not over:
            raise JournalInUse(str(self._journal), self.rival)
        return None

    def _is_in_place(self, beside: int) -> bool:
        """Whether the locked file *beside* is still the journal's lock file; a take-over replaces it."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(beside))
        except FileNotFoundError:
            return False

    def _replace(self) -> int:
        """Replace the lock file, which another process has locked, by a new one; lock it and return its descriptor."""
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        beside = register_lock(create_private(new, os.O_RDWR))
        try_lock_file(beside)
        new.replace(self._path)
        return beside

"""The journal files that this process has open, by device and inode, and the leases that it has in them.

SQLite's locks belong to the process: closing *any* descriptor of the file releases them. So all uses of a file in this
process share one descriptor, which is closed when the last use has closed its connection. Before the first use, the
file is looked at without SQLite.

A process that has a lease locks a byte of the file as long as it has the file open, one byte for each lease. The kernel
releases it when the process ends, however it ends: so others need not wait for the end of a lease whose process is
gone. The bytes are far after the end of any file, where SQLite never locks. They are OFD locks, which belong to a
descriptor: closing another one does not release them. On a system without such locks, a lease lasts for its time.

Another byte stands for the name under which a process has the file open. SQLite's log lies beside that name: whoever
opened a file that was renamed meanwhile would not see what is in the log.
"""

from __future__ import annotations

import os
import sys
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from threading import Lock
from typing import Final

from agentrail.adapters.file_lock import O_BINARY
from agentrail.adapters.journals.sql.byte_locks import is_locked, lock_byte
from agentrail.adapters.journals.sql.file_type import check_kind
from agentrail.adapters.journals.sql.journal_files import REMOVED, REPLACED, FileIdentity, name_beside
from agentrail.adapters.user_folders import begin_journal, end_journal
from agentrail.errors import JournalLinked, JournalUnusable

FIRST_BYTE: Final = 2**61
"""Offset of the byte for the lease with the key 0."""

FIRST_NAME: Final = 2**60
"""Offset of the first byte that stands for a name."""

NAME_BITS: Final = 32
"""How many bits of a digest say which byte stands for a name."""

UNDER_ANOTHER: Final = ", under which another process has it open"


class _SharedFile:
    """A journal file that this process uses, with the number of its uses and their descriptor."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.uses = 0
        self.descriptor = descriptor
        self.leases: set[int] = set()
        """Keys of the leases of this process."""


class _OpenFiles:
    """All journal files that this process uses."""

    def __init__(self) -> None:
        self.guard = Lock()
        self.by_identity: dict[FileIdentity, _SharedFile] = {}

    def forked(self) -> None:
        """Close, in a forked child process, the descriptors; the connections belong to the parent process."""
        self.guard = Lock()
        for file in self.by_identity.values():
            os.close(file.descriptor)
        self.by_identity.clear()


_FILES: Final = _OpenFiles()
if sys.platform != "win32" and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FILES.forked)


class OpenFile:
    """One use of a journal's file, by its reader or its writer: begun before a connection is opened, ended after."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: FileIdentity | None = None

    def begin(self) -> None:
        """Register this use; raise `JournalUnusable` if it is no journal, `JournalLinked` if it has another name.

        SQLite would have two write-ahead logs for a file that it opens under two names.
        """
        with _FILES.guard:
            status = self._path.stat()
            identity = FileIdentity(status.st_dev, status.st_ino)
            file = _FILES.by_identity.get(identity)
            if file is None:
                # safe only here: under the guard, this process has no connection to the file whose locks a close would
                # release
                check_kind(self._path)
                if status.st_nlink > 1 and S_ISREG(status.st_mode):
                    raise JournalLinked(str(self._path), name_beside(self._path, identity))
                file = _SharedFile(self._path, _open_under_its_name(self._path))
            if file.path != self._path:
                raise JournalLinked(str(self._path), f", `{file.path}`")
            file.uses += 1
            _FILES.by_identity[identity] = file
            self._identity = identity
            begin_journal(self._path)

    def end(self) -> None:
        """End this use of the file; its connection must be closed. No-op if it has not begun."""
        identity, self._identity = self._identity, None
        if identity is None:
            return
        with _FILES.guard:
            file = _FILES.by_identity.get(identity)
            if file is None:  # this is a forked child: `forked` has emptied the table
                return
            file.uses -= 1
            end_journal(self._path)
            if not file.uses:
                del _FILES.by_identity[identity]
                os.close(file.descriptor)

    def check(self) -> None:
        """Raise `JournalUnusable` if the file was removed, renamed or replaced: what is written to it would be lost."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            raise JournalUnusable(str(self._path), REMOVED) from None
        if FileIdentity(status.st_dev, status.st_ino) != self._identity:
            raise JournalUnusable(str(self._path), REPLACED)

    @property
    def descriptor(self) -> int:
        """A descriptor of the file, for reading and writing; it stays open as long as the file is used."""
        with _FILES.guard:
            return self._file().descriptor

    def show_lease(self, key: int) -> None:
        """Show other processes that the process with the lease *key* lives: this one."""
        with _FILES.guard:
            file = self._file()
            if key not in file.leases:
                # shared, as a process that starts at the address of one which has not ended yet has the same lease
                lock_byte(file.descriptor, FIRST_BYTE + key, is_shared=True)
                file.leases.add(key)

    def has_lessee(self, key: int) -> bool:
        """Whether a process lives that has shown the lease *key*; true on a system that cannot tell."""
        with _FILES.guard:
            file = self._file()
            return key in file.leases or is_locked(file.descriptor, FIRST_BYTE + key) is not False

    def _file(self) -> _SharedFile:
        file = None if self._identity is None else _FILES.by_identity.get(self._identity)
        if file is None:
            raise JournalUnusable(str(self._path), "it is not open for writing")
        return file


def _open_under_its_name(path: Path) -> int:
    """Open the file and return its descriptor; raise `JournalLinked` if a process has it open under another name."""
    try:
        opened = os.open(path, os.O_RDWR | O_BINARY)
    except OSError:  # it can only be read, and so will this process
        opened = os.open(path, os.O_RDONLY | O_BINARY)
    folder = path.parent.stat()  # as a folder that is mounted elsewhere is the same one
    digest = blake2b(os.fsencode(f"{folder.st_dev} {folder.st_ino} {path.name}"), digest_size=NAME_BITS // 8).digest()
    byte = FIRST_NAME + int.from_bytes(digest)
    lock_byte(opened, byte, is_shared=True)
    # from one byte before the first one, because a count of 0 would mean all bytes after it
    bytes_before, bytes_after = byte - FIRST_NAME + 1, FIRST_NAME + 2**NAME_BITS - byte
    if is_locked(opened, FIRST_NAME - 1, bytes_before) or is_locked(opened, byte + 1, bytes_after):
        os.close(opened)
        raise JournalLinked(str(path), UNDER_ANOTHER)
    return opened

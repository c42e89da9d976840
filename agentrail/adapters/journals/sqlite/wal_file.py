"""The write-ahead log: checks it after a crash, moves it into the file, and removes a failed commit from it.

After a crash, an incomplete end is normal, and damage elsewhere is refused.

SQLite treats the first damaged frame as the end of the log, and silently drops every commit after it. A crash can
damage only the last transaction: all earlier ones were on the disk when it began.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from struct import Struct, unpack
from typing import BinaryIO, Final, NamedTuple

from agentrail.adapters.file_lock import create_private
from agentrail.adapters.journals.sqlite.error_mapping import busy_log_failure, in_checkpoint, in_mending, not_opened
from agentrail.adapters.journals.sqlite.tables import pragma
from agentrail.errors import CommitUnknown, JournalError, JournalUnusable
from agentrail.ports.failpoints import reach

log = logging.getLogger("agentrail.journal")

HEAD: Final = Struct(">IIII8sII")
"""The header of a log: its kind and version, the size of a page, a count, its salts, and a checksum."""

FRAME: Final = Struct(">II8sII")
"""The header of a frame: its page, the file's size if it ends a commit, the salts of its log, and a checksum."""

OF_HEAD: Final = 24
"""The number of bytes of a log's header that its checksum covers."""

OF_FRAME: Final = 8
"""The number of bytes of a frame's header that its checksum covers, besides the page and all earlier frames."""

ORDERS: Final = {0x377F0682: "<", 0x377F0683: ">"}
"""The byte order of the numbers that the checksums are made of, by the magic number at the start of the log."""

TORN: Final = 1
"""The most ends of commits after a damaged frame that a crash explains: those of the last transaction.

Frames of one transaction may reach the disk in any order.
"""

_WORD: Final = 0xFFFFFFFF


class Damage(NamedTuple):
    """The place where a log is damaged."""

    head: bytes
    """The header of the log, which differs for each log."""
    at: int
    """The offset in the log of the first damaged frame, or 0 if it is the header."""


def check_log(path: Path) -> None:
    """Raise `JournalUnusable` if the log of the journal at *path* is so damaged that SQLite would lose commits.

    Nothing is locked while the log is read. Damage counts only if a second reading finds it at the same place: another
    process may just be writing a frame.
    """
    log = Path(f"{path.resolve()}-wal")
    try:
        before, damage = None, _damage(log)
        while damage != before:
            before, damage = damage, _damage(log)
        if damage is None:
            return
        copy = _copy_log(log)
    except OSError as error:
        raise not_opened(error, path) from error
    problem = (
        f"its log `{log.name}` is damaged at byte {damage.at}, and commits behind that would be lost; bring both files "
        f"back from a copy, or go on without those commits: `sqlite3 {path} 'PRAGMA wal_checkpoint(TRUNCATE)'`; "
        f"the log as it is stays in `{copy.name}`"
    )
    raise JournalUnusable(str(path), problem)


def _copy_log(log: Path) -> Path:
    """Copy *log* to a file that only its owner can read, and return the path of the copy."""
    target_path = log.with_name(f"{log.name}.{os.getpid()}")
    with log.open("rb") as source, os.fdopen(create_private(target_path), "wb") as copy:
        shutil.copyfileobj(source, copy)
    return target_path.replace(log.with_name(f"{log.name}.damaged"))


def _damage(log: Path) -> Damage | None:
    """Return the place where *log* is damaged; `None` if it is sound, or damaged only in its last transaction."""
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return None
    with file:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        kind, _, size, _, salts, *stored_check = HEAD.unpack(head)
        order = ORDERS.get(kind, ">")
        check = _check((0, 0), head[:OF_HEAD], order)
        if kind not in ORDERS or check != tuple(stored_check):
            return Damage(head, 0) if any(file.read(FRAME.size)) else None
        at = HEAD.size
        frames = _frames(file, size)
        for frame in frames:
            _, _, its_salts, *stored_check = FRAME.unpack_from(frame)
            before, check = check, _check(check, frame[:OF_FRAME] + frame[FRAME.size :], order)
            if check != tuple(stored_check):
                ends = sum(_is_end(frame_, salts) for frame_ in chain((_repair_frame(frame, before, order),), frames))
                return Damage(head, at) if ends > TORN else None
            if its_salts != salts:  # damage, not a frame of an older log: the checksum of such a frame would not fit
                return Damage(head, at)
            at += len(frame)
    return None


def _frames(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the complete frames of a log."""
    length = FRAME.size + size
    while len(frame := file.read(length)) == length:
        yield frame


def _repair_frame(frame: bytes, before: tuple[int, int], order: str) -> bytes:
    """Return *frame* repaired, if the damage is one bit of the field that says whether it ends a commit; else *frame*.

    If the size of the file is a power of two, one changed bit makes that field 0. The end of an earlier commit then
    looks like the middle of the last one.
    """
    page, end, salts, *stored_check = FRAME.unpack_from(frame)
    for bit in range(32):
        mended = FRAME.pack(page, end ^ (1 << bit), salts, *stored_check) + frame[FRAME.size :]
        if _check(before, mended[:OF_FRAME] + mended[FRAME.size :], order) == tuple(stored_check):
            return mended
    return frame


def _is_end(frame: bytes, salts: bytes) -> bool:
    """Whether *frame* ends a commit in the log that has these *salts*."""
    _, end, its_salts, _, _ = FRAME.unpack_from(frame)
    return bool(end != 0 and its_salts == salts)


def _check(before: tuple[int, int], content: bytes, order: str) -> tuple[int, int]:
    """Return SQLite's checksum of *content*, continued from the checksum *before* of all earlier content."""
    words = unpack(f"{order}{len(content) // 4}I", content)
    low, high = before
    for first, second in zip(words[::2], words[1::2], strict=True):
        low = (low + first + high) & _WORD
        high = (high + second + low) & _WORD
    return low, high


class Checkpoints:
    """Moves the log into the file, and removes failed commits from it. *is_synced*: each commit is synced to disk."""

    def __init__(self, path: Path, *, is_synced: bool) -> None:
        self._path = path
        self._is_synced = is_synced
        self.lost: JournalError | None = None
        """The error with which all further writes are refused; `None` if they are not."""
        self.to_mend = False
        """Whether a failed commit may be in the log."""

    def mend(self, db: sqlite3.Connection) -> None:
        """Remove a failed commit from the log for good.

        Raise `JournalFailed` if that cannot be done yet. Raise `CommitUnknown` if earlier commits may be lost: then
        the writer refuses all further writes.

        No connection sees the failed commit, because SQLite has not added it to the log's index. But it may be complete
        in the log, and a process that opens the journal after a crash would accept it. So the log is moved into the
        file and truncated. Then another commit is written and synced in its place: after a power cut, a log that was
        only truncated may reappear.
        """
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
            (is_busy, *_) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if is_busy:
                raise busy_log_failure()
            db.execute("BEGIN IMMEDIATE")
            db.execute(
                f"PRAGMA user_version = {pragma(db, 'user_version')}"
            )  # setting the version to itself writes a page; an UPDATE that changes nothing would not
            db.execute("COMMIT")
        except sqlite3.Error as error:
            failure = in_mending(error, is_synced=self._is_synced)
            if isinstance(failure, CommitUnknown):
                self.lose(failure)
            raise failure from error
        self.to_mend = False

    def leave_whole(self, db: sqlite3.Connection) -> None:
        """Move the log into the file before the connection is closed, unless a failed commit is in it.

        A failed commit that cannot be removed stays in the log: the next process decides about it.
        """
        try:
            if self.to_mend:
                self.mend(db)
        except JournalError as error:
            log.critical("journal `%s`: %s; the next process to open it sees whether it is there", self._path, error)
            self.to_mend = False
        else:
            self.move(db, "TRUNCATE")

    def move(self, db: sqlite3.Connection, mode: str) -> None:
        """Run a checkpoint of *mode*; log an error, because the next checkpoint can repeat the work."""
        try:
            db.execute(f"PRAGMA wal_checkpoint({mode})")
            reach("LOG_MOVED")
        except sqlite3.Error as error:
            if not self.has_lost(error):
                log.warning("the log of the journal `%s` could not be moved into it yet: %s", self._path, error)

    def has_lost(self, error: sqlite3.Error) -> bool:
        """Return whether commits may be lost after *error* of a checkpoint; if so, refuse all further writes."""
        lost = in_checkpoint(error, is_synced=self._is_synced)
        if lost is not None:
            self.lose(lost)
        return lost is not None

    def lose(self, error: CommitUnknown) -> None:
        """Refuse all further writes with *error*: the content of the file is not known until it is opened again."""
        log.critical("journal `%s`: %s", self._path, error)
        self.lost = error

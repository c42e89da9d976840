"""Checks the write-ahead log after a crash: a torn end is normal, damage elsewhere is refused.

SQLite takes the first damaged frame for the end of the log, and silently drops every commit after it. A
crash can damage only the last transaction: all before it was on the disk when that one began.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from struct import Struct, unpack
from typing import BinaryIO, Final, NamedTuple

from agentrail.adapters.journals.sqlite.failures import not_opened
from agentrail.adapters.journals.sqlite.ownership import ONLY_ITS_OWNERS_FILE
from agentrail.errors import JournalUnusable

HEAD: Final = Struct(">IIII8sII")
"""Header of a log: its kind and version, the size of a page, a count, its salts, and a checksum."""

FRAME: Final = Struct(">II8sII")
"""Header of a frame: its page, the file's size if it ends a commit, the salts of its log, and a checksum."""

OF_HEAD: Final = 24
"""Bytes of a log's header that its checksum covers."""

OF_FRAME: Final = 8
"""Bytes of a frame's header that its checksum covers, with the page and all earlier frames."""

ORDERS: Final = {0x377F0682: "<", 0x377F0683: ">"}
"""Byte order of numbers in the checksums, by the kind of a log."""

TORN: Final = 1
"""Commits that may follow a torn frame: frames of the last transaction reach the disk in any order."""

_WORD: Final = 0xFFFFFFFF


class Damage(NamedTuple):
    """Where a log is damaged."""

    head: bytes
    """Header of the log, which differs for each log."""
    at: int
    """Position of the first damaged byte."""


def check_log(path: Path) -> None:
    """Raise `JournalUnusable` if SQLite would lose commits by damage in the log of the journal at *path*.

    Nothing is locked: frames are written in order, so one that is still not right when those behind it have been seen
    is not one that is just being written.
    """
    log = Path(f"{path.resolve()}-wal")
    try:
        before, found = None, _damage(log)
        while found != before:
            before, found = found, _damage(log)
        if found is None:
            return
        copy = _kept(log)
    except OSError as error:
        raise not_opened(error, path) from error
    problem = (
        f"its log `{log.name}` is damaged at byte {found.at}, and commits behind that would be lost; bring both files "
        f"back from a copy, or go on without those commits: `sqlite3 {path} 'PRAGMA wal_checkpoint(TRUNCATE)'`; "
        f"the log as it is stays in `{copy.name}`"
    )
    raise JournalUnusable(str(path), problem)


def _kept(log: Path) -> Path:
    """Keep a copy of *log*, which only its owner can read, and return where."""
    made = log.with_name(f"{log.name}.{os.getpid()}")
    target = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, ONLY_ITS_OWNERS_FILE)
    with log.open("rb") as source, os.fdopen(target, "wb") as copy:
        shutil.copyfileobj(source, copy)
    return made.replace(log.with_name(f"{log.name}.damaged"))


def _damage(log: Path) -> Damage | None:
    """Return where *log* is damaged; `None` if it is whole, or torn at its end."""
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return None
    with file:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        kind, _, size, _, salts, *said = HEAD.unpack(head)
        order = ORDERS.get(kind, ">")
        check = _check((0, 0), head[:OF_HEAD], order)
        if kind not in ORDERS or check != tuple(said):
            return Damage(head, 0) if any(file.read(FRAME.size)) else None
        at = HEAD.size
        frames = _frames(file, size)
        for frame in frames:
            _, _, its_salts, *said = FRAME.unpack_from(frame)
            before, check = check, _check(check, frame[:OF_FRAME] + frame[FRAME.size :], order)
            if check != tuple(said):
                ends = sum(_is_end(each, salts) for each in chain((_mended(frame, before, order),), frames))
                return Damage(head, at) if ends > TORN else None
            if its_salts != salts:  # a frame of another log has a check that does not follow from ours
                return Damage(head, at)
            at += len(frame)
    return None


def _frames(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the frames of a log that are there in full."""
    length = FRAME.size + size
    while len(frame := file.read(length)) == length:
        yield frame


def _mended(frame: bytes, before: tuple[int, int], order: str) -> bytes:
    """Return *frame* as it was, if no more than a bit of what says whether it ends a commit has changed.

    Of a file whose size is a power of two, such a bit makes the end of a commit look like the middle of the last one.
    """
    page, end, salts, *said = FRAME.unpack_from(frame)
    for bit in range(32):
        mended = FRAME.pack(page, end ^ (1 << bit), salts, *said) + frame[FRAME.size :]
        if _check(before, mended[:OF_FRAME] + mended[FRAME.size :], order) == tuple(said):
            return mended
    return frame


def _is_end(frame: bytes, salts: bytes) -> bool:
    """Whether *frame* ends a commit in the log that has these *salts*."""
    _, end, its_salts, _, _ = FRAME.unpack_from(frame)
    return bool(end != 0 and its_salts == salts)


def _check(before: tuple[int, int], content: bytes, order: str) -> tuple[int, int]:
    """Return SQLite's check of *content* behind what has the check *before*."""
    words = unpack(f"{order}{len(content) // 4}I", content)
    one, two = before
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & _WORD
        two = (two + second + one) & _WORD
    return one, two

"""Cleans the file after sessions were deleted: gives free pages back, and zeroes bytes of rows that are gone.

SQLite zeroes what it deletes (`secure_delete`), but it leaves copies behind: when it moves rows from one page to
another, their bytes stay in the gap between the row pointers of the old page and its first row. SQLite never
reads a gap. So the copies are zeroed here, in the file itself, without SQLite: while nobody else
can write, and while the log is empty, so that the page in the file is the last one.

The work is done in small pieces, between which the writer commits for others.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final

from agentrail.adapters.journals.sqlite.deletion.erasing import ERASED
from agentrail.adapters.journals.sqlite.file_type import HEAD, number_at, size_of_pages
from agentrail.adapters.journals.sqlite.tables import AUTO_VACUUM
from agentrail.ports.failpoints import reach

GIVEN_BACK: Final = 128
"""How many free pages one transaction gives back."""

READ_AT_ONCE: Final = 1024 * 1024
"""How many bytes of the file one piece of the search reads."""

ZEROED: Final = 256
"""How many pages one piece zeroes gaps of."""

FIRST_MAP: Final = 2
"""The first page of SQLite's pointer map, which says what each page is. A page of it is followed by those it covers."""

UNUSED: Final = 1 << 30
"""The byte of the file that SQLite locks; the page with it is neither used nor part of the map."""

ENTRY: Final = 5
"""Bytes of an entry of the map: the kind of a page, and the page that refers to it."""

TREE: Final = frozenset({1, 5})
"""The kinds of pages that are parts of a tree of rows, and so have gaps: a root, or any other."""

INNER: Final = frozenset({2, 5})
"""The first byte of a tree's inner page, whose header is longer than that of a leaf."""

LEAVES: Final = frozenset({10, 13})
"""The first byte of a tree's leaf."""


class CleaningPhase(Enum):
    """The phases of a round of cleaning: what it does next."""

    REBUILDING = "the file is written anew, as one that can give free pages back"
    GIVING_BACK = "free pages are given back"
    MOVING = "the log is moved into the file"
    SEARCHING = "gaps that are not zero are searched"
    ZEROING = "gaps are zeroed"
    FORGETTING = "the marks are removed"
    DONE = "nothing is left to do"


class Round:
    """One round of cleaning, for all sessions whose rows were erased before it began."""

    def __init__(self, db: sqlite3.Connection, path: Path, descriptor: int) -> None:
        # a file that another program has made may lack it, and with it the map that says which pages are rows
        has_map = _pragma(db, "auto_vacuum")
        self.phase = CleaningPhase.GIVING_BACK if has_map else CleaningPhase.REBUILDING
        self._db = db
        self._log = path.with_name(f"{path.name}-wal")
        self._file = descriptor
        (self._upto,) = db.execute("SELECT max(number) FROM deleting WHERE slot = ?", (ERASED,)).fetchone()
        self._search: Iterator[list[int]] | None = None
        self._dirty_pages: list[int] = []

    @property
    def is_done(self) -> bool:
        """Whether the round is over, and its marks are removed."""
        return self.phase is CleaningPhase.DONE

    @property
    def in_transaction(self) -> bool:
        """Whether the next piece changes rows, so that it must run in a transaction."""
        return self.phase in (CleaningPhase.GIVING_BACK, CleaningPhase.FORGETTING)

    def go_on(self) -> bool:
        """Do the next piece; return false if it has to wait, because another program reads the file."""
        match self.phase:
            case CleaningPhase.REBUILDING:
                self._db.execute(f"PRAGMA {AUTO_VACUUM}")
                self._db.execute("VACUUM")
                self.phase = CleaningPhase.GIVING_BACK
            case CleaningPhase.GIVING_BACK:
                self._give_back()
            case CleaningPhase.MOVING:
                return self._move_log(CleaningPhase.SEARCHING)
            case CleaningPhase.SEARCHING:
                self._look()
            case CleaningPhase.ZEROING:
                return self._move_log(CleaningPhase.ZEROING) and self._zero()
            case CleaningPhase.FORGETTING:
                self._db.execute("DELETE FROM deleting WHERE number <= ?", (self._upto,))
                self.phase = CleaningPhase.DONE
            case CleaningPhase.DONE:
                pass
        return True

    def _give_back(self) -> None:
        free_pages = _pragma(self._db, "freelist_count")
        for _ in range(GIVEN_BACK):
            # frees one page: Python runs one step of this pragma, whatever its number
            self._db.execute("PRAGMA incremental_vacuum(1)")
            before, free_pages = free_pages, _pragma(self._db, "freelist_count")
            if not free_pages or free_pages == before:
                self.phase = CleaningPhase.MOVING
                return

    def _move_log(self, then: CleaningPhase) -> bool:
        """Move the log into the file, truncate it, and go on to *then*; return false if a reader prevents that."""
        waits = _pragma(self._db, "busy_timeout")
        self._db.execute("PRAGMA busy_timeout = 0")
        try:
            (is_busy, *_) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._db.execute(f"PRAGMA busy_timeout = {waits}")
        if is_busy:
            return False
        reach("LOG_MOVED")
        self.phase = then
        return True

    def _look(self) -> None:
        if self._search is None:
            self._search = dirty_gaps(self._file)
        gap = next(self._search, None)
        if gap is None:
            self._search = None
            self.phase = CleaningPhase.ZEROING if self._dirty_pages else CleaningPhase.FORGETTING
        else:
            self._dirty_pages += gap

    def _zero(self) -> bool:
        """Zero some gaps, in an empty transaction that keeps other writers away; return false if that must wait."""
        pages, self._dirty_pages = self._dirty_pages[:ZEROED], self._dirty_pages[ZEROED:]
        self._db.execute("BEGIN IMMEDIATE")
        try:
            # another program has written since the log was truncated: page numbers may be wrong
            if self._log.exists() and self._log.stat().st_size:
                self._dirty_pages += pages
                return False
            zero_gaps(self._file, pages)
            reach("GAPS_ZEROED")
        finally:
            self._db.execute("ROLLBACK")
        # pages in SQLite's cache still have the old gaps, and would be written with the next changes
        self._db.execute("PRAGMA shrink_memory")
        if not self._dirty_pages:
            os.fsync(self._file)
            self.phase = CleaningPhase.FORGETTING
        return True


def _pragma(db: sqlite3.Connection, name: str) -> int:
    (value,) = db.execute(f"PRAGMA {name}").fetchone()
    return int(value)


class _Pages:
    """Reads the pages of the file, with their types from SQLite's pointer map."""

    def __init__(self, descriptor: int) -> None:
        self._file = descriptor
        os.lseek(descriptor, 0, os.SEEK_SET)
        head = os.read(descriptor, HEAD)
        self.size = size_of_pages(head)
        self.count = number_at(head, 28)
        self._covers = (self.size - head[20]) // ENTRY
        self._unused = UNUSED // self.size + 1
        self._map = (0, b"")

    def read(self, first: int, count: int = 1) -> bytes:
        """Return *count* pages, from number *first* on."""
        os.lseek(self._file, (first - 1) * self.size, os.SEEK_SET)
        return os.read(self._file, count * self.size)

    def zero(self, page: int, start: int, end: int) -> None:
        """Write zeros into a page, from byte *start* to *end*."""
        os.lseek(self._file, (page - 1) * self.size + start, os.SEEK_SET)
        os.write(self._file, bytes(end - start))

    def is_tree(self, page: int) -> bool:
        """Whether a page is part of a tree of rows."""
        if page == 1:
            return True
        place = FIRST_MAP + (page - FIRST_MAP) // (self._covers + 1) * (self._covers + 1)
        place += place == self._unused
        if self._map[0] != place:
            self._map = (place, self.read(place))
        at = (page - place - 1) * ENTRY
        return page > place and page != self._unused and self._map[1][at] in TREE

    def gap(self, page: int, content: bytes) -> tuple[int, int]:
        """Return where the gap of a tree's page begins and ends; an empty range if *content* is not a valid page."""
        head = HEAD if page == 1 else 0
        if content[head] not in INNER | LEAVES:
            return 0, 0
        length = 12 if content[head] in INNER else 8
        start = head + length + 2 * int.from_bytes(content[head + 3 : head + 5])
        end = int.from_bytes(content[head + 5 : head + 7]) or 1 << 16
        return (start, end) if start <= end <= self.size else (0, 0)


def dirty_gaps(descriptor: int) -> Iterator[list[int]]:
    """Search the file for pages with a gap that is not zero; yield those of each piece."""
    first = 1
    while first <= (pages := _Pages(descriptor)).count:
        count = max(1, READ_AT_ONCE // pages.size)
        content = pages.read(first, count)
        gap: list[int] = []
        for page in range(first, first + len(content) // pages.size):
            at = (page - first) * pages.size
            if pages.is_tree(page) and _is_dirty(pages, page, content[at : at + pages.size]):
                gap.append(page)
        yield gap
        first += count


def _is_dirty(pages: _Pages, page: int, content: bytes) -> bool:
    start, end = pages.gap(page, content)
    return bool(content[start:end].strip(b"\0"))


def zero_gaps(descriptor: int, gap: list[int]) -> None:
    """Zero the gaps of the pages *gap* in the file."""
    pages = _Pages(descriptor)
    for page in gap:
        if page <= pages.count and pages.is_tree(page):
            start, end = pages.gap(page, pages.read(page))
            pages.zero(page, start, end)

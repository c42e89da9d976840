"""Records of one session in memory: the newest as objects, older ones as JSON, compressed together in pages.

A record as an object takes some 1.4 kB. In a page, one of a short turn takes some 200 bytes, because texts that many
records repeat compress well.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from agentrail.adapters.journals.stored_form import with_pauses, without_pauses
from agentrail.errors import BadValue
from agentrail.lazy import LazyModule
from agentrail.ports.journal import Record, Snapshot, length_of

if TYPE_CHECKING:
    from agentrail.adapters.journals.packing import PackedRecord
    from agentrail.codec import values as codec
else:  # costs 20 ms that most programs need not pay
    codec = LazyModule("agentrail.codec.values")

PAGE: Final = 16 * 1024
"""Bytes of JSON with which a page is full; one with half of them or less is opened again for the next records."""

LONG: Final = 64 * 1024
"""Bytes of JSON from which a record stays as it is: nearly all of them are one text or image."""

LEVEL: Final = 3
"""How well pages are compressed, from 1 to 9. What is beyond 3 takes five times as long, and saves a tenth."""


class Pages:
    """The records of one session, by number: those in pages, then the `newest`."""

    __slots__ = ("_ends", "_has_room", "_pages", "newest")

    def __init__(self) -> None:
        # a `Record` if it is too long, or cannot be written as JSON: it is a page alone
        self._pages: tuple[bytes | Record, ...] = ()
        self._ends: array[int] | None = None  # the number of the last record of each page
        self._has_room = False  # in the last page
        self.newest: list[Record | PackedRecord] = []

    def __len__(self) -> int:
        return self._paged + len(self.newest)

    @property
    def _paged(self) -> int:
        return self._ends[-1] if self._ends else 0

    def after(self, number: int) -> Iterator[Record | PackedRecord]:
        """Yield the records that follow *number*."""
        ends = self._ends or array("q")
        for place in range(bisect_left(ends, number + 1), len(ends)):
            page = self._pages[place]
            if isinstance(page, Record):
                yield page
                continue
            first = ends[place - 1] + 1 if place else 1
            for text in _texts(page)[max(number + 1 - first, 0) :]:
                yield _read_record(text)
        yield from self.newest[max(number - self._paged, 0) :]

    def page_out(self, count: int) -> int:
        """Put up to *count* of the newest records into pages, the oldest first; return how many."""
        records = [record for record in self.newest[:count] if isinstance(record, Record)]
        pages, ends, texts = list(self._pages), array("q", self._ends or ()), list[bytes]()
        number = self._paged
        last = pages[-1] if self._has_room else None
        if isinstance(last, bytes):
            texts = _texts(last)
            pages.pop()
            ends.pop()
        size = sum(map(len, texts))
        for record in records:
            text = _compressed_record(record)
            if text is None or size >= PAGE:
                _close(pages, ends, texts, number)
                size = 0
            if text is None:
                pages.append(record)
                ends.append(number + 1)
            else:
                texts.append(text)
                size += len(text)
            number += 1
        self._has_room = 0 < size <= PAGE // 2
        _close(pages, ends, texts, number)
        self._pages, self._ends = tuple(pages), ends
        del self.newest[: len(records)]  # removed last: if memory runs out above, no record is lost
        return len(records)

    def unpage_all(self) -> None:
        """Make all records the newest ones, and leave none in a page."""
        self.newest = list(self.after(0))
        self._pages, self._ends, self._has_room = (), None, False


def _close(pages: list[bytes | Record], ends: array[int], texts: list[bytes], number: int) -> None:
    """Add a page of *texts*, the last of which is the record *number*, and clear them. No-op if there are none."""
    if texts:
        pages.append(zlib.compress(b"\n".join(texts), LEVEL))
        ends.append(number)
        texts.clear()


def _texts(page: bytes) -> list[bytes]:
    return zlib.decompress(page).split(b"\n")  # JSON texts contain no line break: it is escaped


def _compressed_record(record: Record) -> bytes | None:
    """Return *record* as JSON, without pauses that its change repeats; `None` if it must stay an object."""
    rulings = without_pauses(record.rulings, record.change)
    return _json_text(record if rulings is record.rulings else record.but(rulings=rulings))


def _read_record(text: bytes) -> Record:
    record = codec.read(Record, text)
    rulings = with_pauses(record.rulings, record.change)
    return record if rulings is record.rulings else record.but(rulings=rulings)


def _json_text(value: Record | Snapshot) -> bytes | None:
    """Return *value* as JSON; `None` if it is too long, or cannot be written as JSON."""
    try:
        text = codec.write(value)
    except BadValue:
        return None
    return text if len(text) < LONG else None


def compress_snapshot(snapshot: Snapshot) -> Snapshot | bytes:
    """Return *snapshot* compressed, or as it is if it is long or cannot be written as JSON."""
    if length_of(snapshot.state.history) >= LONG:  # its JSON would be as long, and writing it takes long
        return snapshot
    text = _json_text(snapshot)
    return snapshot if text is None else zlib.compress(text, LEVEL)


def decompress_snapshot(compressed: bytes) -> Snapshot:
    """Return the snapshot that `compress_snapshot` has compressed."""
    return codec.read(Snapshot, zlib.decompress(compressed))

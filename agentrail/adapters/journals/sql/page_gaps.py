"""Finds and zeroes the gaps of pages: the bytes between the row pointers of a page and its first row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from agentrail.adapters.journals.sql.file_type import HEAD, number_at, size_of_pages

READ_AT_ONCE: Final = 1024 * 1024
"""How many bytes of the file one piece of the search reads."""

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
        map_page = FIRST_MAP + (page - FIRST_MAP) // (self._covers + 1) * (self._covers + 1)
        map_page += map_page == self._unused
        if self._map[0] != map_page:
            self._map = (map_page, self.read(map_page))
        offset = (page - map_page - 1) * ENTRY
        return page > map_page and page != self._unused and self._map[1][offset] in TREE

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
            offset = (page - first) * pages.size
            if pages.is_tree(page) and _is_dirty(pages, page, content[offset : offset + pages.size]):
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

"""Cuts a text into chunks: paragraphs below their headings, each with its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from agentrail.values.code_fences import open_fence

MAX_CHUNK: Final = 1_200
"""The most characters of a chunk."""

OVERLAP: Final = 150
"""The most characters that a chunk repeats of the one before it in the same section."""

MAX_HEADING: Final = 100
"""The most characters of one heading that are kept."""

CHUNKING: Final = f"headings/{MAX_CHUNK}/{OVERLAP}"
"""Name of this way to cut; a store remembers with which one it was made."""

_LINE: Final = re.compile(
    r"^ {0,3}(?:(?P<level>#{1,6})[ \t]+(?P<title>[^\n]*)|(?P<fence>`{3,}|~{3,})(?P<after>[^\n]*))", re.MULTILINE
)
"""A line that begins with a heading of Markdown, or with a fence of a block of code."""

_PARAGRAPH: Final = re.compile(r"\n[ \t\r]*\n")
_SENTENCE: Final = re.compile("[.!?…]['\")\\]]*\\s|[\u3002\uff01\uff1f]|\n")
_BLANK: Final = re.compile(r"\s")


class Chunk(NamedTuple):
    """A part of a text."""

    heading: str
    """The headings above it, outermost first, with ` > ` between."""
    start: int
    """Number of its first character."""
    end: int
    """Number of the character after its last one."""
    overlap: int
    """How many of its first characters are the last ones of the chunk before it."""


def chunks_of(text: str) -> Iterator[Chunk]:
    """Yield the chunks of *text*; without their overlaps they are the whole text. None if it is blank."""
    if not text or text.isspace():
        return
    for heading, start, end in _sections(text):
        yield from _section_chunks(text, heading, start, end)


def _sections(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield heading, first character and end of each section: from one heading to the next one."""
    headings: list[str] = []
    start, fence = 0, ""
    for line in _LINE.finditer(text):
        mark = line["fence"]
        if mark is not None:
            fence = open_fence(fence, mark, line["after"])
        elif not fence:
            if not text[start : line.start()].isspace() and line.start() > start:
                yield " > ".join(filter(None, headings)), start, line.start()
                start = line.start()
            level = len(line["level"]) - 1
            headings[level:] = ["" for _ in range(level - len(headings))]
            headings.append(_title(line["title"]))
    yield " > ".join(filter(None, headings)), start, len(text)


def _title(line: str) -> str:
    title = line[: 4 * MAX_HEADING].strip().rstrip("#").strip()
    return "".join(char if char.isprintable() else " " for char in title)[:MAX_HEADING]


def _section_chunks(text: str, heading: str, start: int, end: int) -> Iterator[Chunk]:
    first = start
    while start < end:
        visible = start if start == first else _overlap_start(text, first, start)
        stop = _cut(text, start, end, MAX_CHUNK - (start - visible))
        if end - visible <= MAX_CHUNK and text[stop:end].isspace():
            stop = end
        yield Chunk(heading, visible, stop, start - visible)
        start = stop


def _overlap_start(text: str, first: int, start: int) -> int:
    """Return where the overlap of a chunk begins that itself begins at *start*: at a word, not before *first*."""
    earliest = max(first, start - OVERLAP)
    if earliest == first:
        return first
    blank = _BLANK.search(text, earliest, start)
    return earliest if blank is None else blank.end()


def _cut(text: str, start: int, end: int, room: int) -> int:
    """Return where a chunk from *start* on ends that has at most *room* characters of its own.

    It is after the last whole paragraph, else after a sentence or a word in the second half, else anywhere.
    """
    if end - start <= room:
        return end
    limit = start + room
    for pattern, earliest in ((_PARAGRAPH, start + 1), (_SENTENCE, start + room // 2), (_BLANK, start + room // 2)):
        stops = [match.end() for match in pattern.finditer(text, earliest, limit)]
        if stops and not text[start : stops[-1]].isspace():
            return stops[-1]
    return limit

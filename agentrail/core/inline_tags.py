"""Inline tags: remove `<status>` and `<title>` from a text that arrives in pieces.

A tag is an opening, at most `LONGEST` characters, and its closing. Anything else is text. So little text is held back,
and none is lost.
"""

from __future__ import annotations

from typing import Final

from agentrail.values.content import Said, Text
from agentrail.values.value import Value

TAGS: Final = ("status", "title")
"""Names of the tags that are recognized."""

LONGEST: Final = 200
"""The most characters between the opening of a tag and its closing; with more, the tag stays in the text."""

TITLE: Final = 60
"""The most characters of a title; a longer one is cut."""


class Tagged(Value):
    """A tag that was found in the text."""

    tag: str
    """Name of the tag."""
    text: str
    """The text between the opening of the tag and its closing."""


class TagFilter:
    """Removes the tags from one response; a tag may be split over several pieces."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept = ""

    def feed(self, piece: str) -> list[str | Tagged]:
        """Take the next piece; return the text and the tags that are complete by now, in order."""
        return self._cut(self._kept + piece, last=False)

    def end(self) -> list[str | Tagged]:
        """Return the text that was held back as a possible tag; called after the last piece."""
        return self._cut(self._kept, last=True)

    def _cut(self, text: str, *, last: bool) -> list[str | Tagged]:
        """Return the texts and tags in *text* that are certain, and keep the rest; with *last*, nothing is kept."""
        certain: list[str | Tagged] = []
        begin = look = 0
        while (look := text.find("<", look)) >= 0:
            tag = _tag_at(text, look)
            if isinstance(tag, Tagged):
                certain += (text[begin:look], tag.but(text=tag.text.strip()))
                begin = look = look + len(tag.text) + 2 * len(tag.tag) + len("<></>")
            elif tag and not last:
                break
            else:
                look += 1
        if look < 0:
            look = len(text)
        self._kept = text[look:]
        certain.append(text[begin:look])
        return [piece for piece in certain if piece]


def _tag_at(text: str, index: int) -> Tagged | bool:
    """Return the tag at *index*; `True` if it may become one when more text has come, `False` if it is none."""
    for tag in TAGS:
        opening, closing = f"<{tag}>", f"</{tag}>"
        inside = index + len(opening)
        if inside > len(text):
            if opening.startswith(text[index:]):
                return True
        elif text.startswith(opening, index):
            end = text.find(closing, inside, inside + LONGEST + len(closing))
            if end >= 0:
                return Tagged(tag, text[inside:end])
            return len(text) < inside + LONGEST + len(closing)
    return False


def without_tags(parts: tuple[Said, ...]) -> tuple[tuple[Said, ...], tuple[Tagged, ...]]:
    """Return *parts* of a complete response without tags, and the tags; parts that become empty are left out."""
    cutter = TagFilter()
    untagged: list[Said] = []
    tags: list[Tagged] = []
    ends = max((index for index, part in enumerate(parts) if isinstance(part, Text)), default=-1)
    for index, part in enumerate(parts):
        if not isinstance(part, Text):
            untagged.append(part)
            continue
        pieces = [*cutter.feed(part.text), *(cutter.end() if index == ends else ())]
        text = "".join(piece for piece in pieces if isinstance(piece, str))
        tags += (piece for piece in pieces if isinstance(piece, Tagged))
        if text:
            untagged.append(part.but(text=text))
    return tuple(untagged), tuple(tags)


def title_in(tags: tuple[Tagged, ...]) -> str:
    """Return the last title among *tags*, empty if there is none."""
    titles = [tag.text for tag in tags if tag.tag == "title" and tag.text]
    return " ".join(titles[-1].split())[:TITLE].rstrip() if titles else ""

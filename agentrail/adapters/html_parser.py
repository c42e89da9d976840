"""HTML as a row of tags and texts: whatever browsers forgive is forgiven, and no page takes long.

The parser of the standard library needs time in the square of what is never closed. Here each step takes what it has
looked at; where a tag never ends, the page ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Final, TypeAlias

from agentrail.values.value import Value, value

MAX_MISTAKES: Final = 100
"""Tags whose quotes do not close; behind so many the page is given up."""

MAX_TAG: Final = 8192
"""Characters of a tag in which attributes are looked for."""

RAW: Final = frozenset({"script", "style", "title", "textarea", "xmp"})
"""What holds text only, up to its own end."""

_NAME: Final = re.compile(r"[a-zA-Z][^\s/>]{0,40}+")
_REST: Final = re.compile(r"(?:[^\"'>]++|\"[^\"]*+\"|'[^']*+')*+>")
_ATTRIBUTE: Final = re.compile(r"(?<![\w-])([a-zA-Z-]++)\s*+=\s*+(\"[^\"]*+\"|'[^']*+'|[^\s>]++)")
_ENDS: Final = {name: re.compile(f"</{name}", re.IGNORECASE) for name in RAW}


@value
class Start(Value):
    """A tag that opens something."""

    tag: str
    """Its name, in small letters."""
    source: str
    """What else is written in it."""

    @property
    def attributes(self) -> Mapping[str, str]:
        """Its attributes, the first of each name."""
        found: dict[str, str] = {}
        for name, text in _ATTRIBUTE.findall(self.source[:MAX_TAG]):
            found.setdefault(name.lower(), plain(text.strip(text[0]) if text[0] in "\"'" else text))
        return found


@value
class End(Value):
    """A tag that closes something."""

    tag: str
    """Its name, in small letters."""


Token: TypeAlias = Start | End | str


def tokens(html: str) -> Iterator[Token]:
    """Yield the tags and texts of *html*, in order; comments and declarations are left out."""
    position, mistakes = 0, 0
    while position < len(html):
        at = html.find("<", position)
        if at < 0:
            yield plain(html[position:])
            return
        if at > position:
            yield plain(html[position:at])
        if html.startswith("<!--", at):
            position = _behind(html, "-->", at + 4)
            continue
        closing = html.startswith("</", at)
        named = _NAME.match(html, at + 1 + closing)
        if named is None:
            if html.startswith(("<!", "<?", "</"), at):
                position = _behind(html, ">", at + 2)
            else:
                yield "<"
                position = at + 1
            continue
        rest = _REST.match(html, named.end())
        position = rest.end() if rest is not None else _behind(html, ">", named.end())
        mistakes += rest is None
        if mistakes > MAX_MISTAKES:
            return
        tag = named[0].lower()
        if closing:
            yield End(tag)
            continue
        yield Start(tag, html[named.end() : position - 1])
        if tag in RAW:
            end = _ENDS[tag].search(html, position)
            yield plain(html[position : end.start() if end else len(html)])
            position = end.start() if end else len(html)


def _behind(html: str, mark: str, start: int) -> int:
    at = html.find(mark, start)
    return len(html) if at < 0 else at + len(mark)


def plain(text: str) -> str:
    """Return *text* with its character references replaced."""
    if "&" not in text:
        return text
    try:
        return unescape(text)
    except ValueError:  # a number of thousands of digits
        return text

"""Converts HTML to Markdown: headings, paragraphs, lists, links, code, quotes and tables; of other elements, the text.

It accepts malformed HTML, as browsers do. Elements that are not part of the text (scripts, styles, buttons) are left
out.

`tokens` splits HTML into tags and texts, in a time proportional to the length of the page. The parser of the standard
library takes quadratic time on constructs that are never closed. Here each step consumes the text that it has read, and
after a tag that is never closed the rest of the page is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Final, TypeAlias
from urllib.parse import urljoin

from agentrail.values.value import Value

MAX_MISTAKES: Final = 100
"""The most tags with unclosed quotes; after one more, the rest of the page is ignored."""

MAX_TAG: Final = 8192
"""The most characters of a tag that are searched for attributes; attributes after them are ignored."""

RAW: Final = frozenset({"script", "style", "title", "textarea", "xmp"})
"""Elements whose content is text without tags, up to their end tag."""

_NAME: Final = re.compile(r"[a-zA-Z][^\s/>]{0,40}+")
_REST: Final = re.compile(r"(?:[^\"'>]++|\"[^\"]*+\"|'[^']*+')*+>")
_ATTRIBUTE: Final = re.compile(r"(?<![\w-])([a-zA-Z-]++)\s*+=\s*+(\"[^\"]*+\"|'[^']*+'|[^\s>]++)")
_ENDS: Final = {name: re.compile(f"</{name}", re.IGNORECASE) for name in RAW}


class Start(Value):
    """A start tag of an HTML document."""

    tag: str
    """The name of the tag, in lower case."""
    source: str
    """The text of the tag after its name: the attributes, not parsed."""

    @property
    def attributes(self) -> Mapping[str, str]:
        """The attributes of the tag by name; of several with one name, the first."""
        attributes: dict[str, str] = {}
        for name, text in _ATTRIBUTE.findall(self.source[:MAX_TAG]):
            attributes.setdefault(name.lower(), plain(text.strip(text[0]) if text[0] in "\"'" else text))
        return attributes


class End(Value):
    """An end tag of an HTML document."""

    tag: str
    """The name of the tag, in lower case."""


Token: TypeAlias = Start | End | str


def tokens(html: str) -> Iterator[Token]:
    """Yield the tags and texts of *html*, in order; comments and declarations are left out."""
    position, mistakes = 0, 0
    while position < len(html):
        opening = html.find("<", position)
        if opening < 0:
            yield plain(html[position:])
            return
        if opening > position:
            yield plain(html[position:opening])
        if html.startswith("<!--", opening):
            position = _behind(html, "-->", opening + 4)
            continue
        closing = html.startswith("</", opening)
        named = _NAME.match(html, opening + 1 + closing)
        if named is None:
            if html.startswith(("<!", "<?", "</"), opening):
                position = _behind(html, ">", opening + 2)
            else:
                yield "<"
                position = opening + 1
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
    opening = html.find(mark, start)
    return len(html) if opening < 0 else opening + len(mark)


def plain(text: str) -> str:
    """Return *text* with its character references, such as `&amp;`, replaced by the characters."""
    if "&" not in text:
        return text
    try:
        return unescape(text)
    except ValueError:  # a numeric reference with thousands of digits
        return text


UNSEEN: Final = frozenset(
    ("script", "style", "textarea", "noscript", "template", "svg", "iframe", "object", "select", "button", "canvas")
)
BLOCKS: Final = frozenset(
    (
        *("p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "form", "figure", "address"),
        *("table", "ul", "ol", "dl", "dd", "dt", "details", "summary", "fieldset", "figcaption", "hgroup", "body"),
    )
)
HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}
MARKS: Final = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~"}

_SPACES: Final = re.compile(r"[ \t\r\n\f\v\xa0]+")
_BLANKS: Final = re.compile(r"\n{3,}")
_TRAILING: Final = re.compile(r"(?<![ \t])[ \t]+\n")
_LINKED: Final = ("http://", "https://")


def to_markdown(html: str, url: str) -> str:
    """Return the text of *html*, the page at *url*, as Markdown; relative links become absolute."""
    writer = _MarkdownWriter(url)
    for token in tokens(html):
        match token:
            case Start(tag):
                writer.start(tag, token)
            case End(tag):
                writer.end(tag)
            case str():
                writer.say(token)
    return writer.text()


class _MarkdownWriter:
    """Writes Markdown from the tags and texts that it is given in order."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._out: list[str] = []
        self._unseen = ""
        self._depth = 0
        self._lists: list[int] = []
        self._links: list[str] = []
        self._quotes = 0
        self._pre = 0
        self._cells = 0
        self._title: list[str] = []
        self._in_title = False
        self._at_start = True
        self._wants_space = False

    def text(self) -> str:
        """Return the Markdown, with the page's title as the first heading unless the text begins with a heading."""
        body = _BLANKS.sub("\n\n", _TRAILING.sub("\n", "".join(self._out))).strip()
        title = _SPACES.sub(" ", "".join(self._title)).strip()
        if not title or body.startswith("# "):
            return body
        return f"# {title}\n\n{body}".rstrip()

    def start(self, tag: str, token: Start) -> None:
        """Write the Markdown of the start tag; within an element that is not shown, only count nested elements."""
        self._in_title = tag == "title"
        if self._unseen:
            self._depth += tag == self._unseen
        elif tag in UNSEEN:
            self._unseen, self._depth = tag, 1
        else:
            self._start(tag, token)

    def _start(self, tag: str, token: Start) -> None:
        if tag == "br":
            self._line()
        elif tag == "hr":
            self._block()
            self._write("---")
            self._block()
        elif tag in HEADINGS:
            self._block()
            self._write(f"{HEADINGS[tag]} ")
        elif tag == "li":
            self._line()
            self._write(self._bullet())
        elif tag == "img":
            self._image(token.attributes)
        elif tag == "a":
            self._links.append(self._absolute_url(token.attributes.get("href", "")))
            self._open("[" if self._links[-1] else "")
        elif tag in MARKS or tag == "code":
            self._open("" if self._pre else MARKS.get(tag, "`"))
        else:
            self._start_block(tag)

    def _start_block(self, tag: str) -> None:
        if tag in {"ul", "ol"}:
            self._line() if self._lists else self._block()
            self._lists.append(1 if tag == "ol" else 0)
        elif tag == "blockquote":
            self._block()
            self._quotes += 1
        elif tag == "pre":
            self._block()
            self._write("```")
            self._line()
            self._pre += 1
        elif tag == "tr":
            self._line()
            self._cells = 0
        elif tag in {"td", "th"}:
            self._open("| ")
            self._cells += 1
        elif tag in BLOCKS:
            self._block()

    def end(self, tag: str) -> None:
        """Write the Markdown of the end tag; within an element that is not shown, only look for the end of that."""
        self._in_title = False
        if not self._unseen:
            self._end(tag)
        elif tag == self._unseen:
            self._depth -= 1
            if not self._depth:
                self._unseen = ""

    def _end(self, tag: str) -> None:
        if tag in HEADINGS or tag in BLOCKS or tag == "blockquote":
            self._end_block(tag)
        elif tag == "pre" and self._pre:
            self._pre -= 1
            self._line()
            self._write("```")
            self._block()
        elif tag == "a" and self._links:
            target = self._links.pop()
            self._close(f"]({target})" if target else "")
        elif tag in MARKS or tag == "code":
            self._close("" if self._pre else MARKS.get(tag, "`"))
        elif tag in {"td", "th"}:
            self._close(" ")
        elif tag == "tr" and self._cells:
            self._close("|")
            self._line()

    def _end_block(self, tag: str) -> None:
        if tag in {"ul", "ol"} and self._lists:
            self._lists.pop()
            self._line() if self._lists else self._block()
            return
        self._block()
        if tag == "blockquote" and self._quotes:
            self._quotes -= 1

    def say(self, data: str) -> None:
        """Write a text between tags, with spaces as HTML shows them; keep that of `title`, omit what is not shown."""
        if self._in_title:
            self._title.append(data)
        elif self._unseen:
            return
        elif self._pre:
            for index, line in enumerate(data.split("\n")):
                if index:
                    self._line(always=True)
                if line:
                    self._write(line)
        else:
            words = _SPACES.sub(" ", data)
            if words.startswith(" "):
                self._wants_space = True
            if words.strip():
                self._write(words.strip())
                self._wants_space = words.endswith(" ")

    def _write(self, text: str) -> None:
        if self._at_start:
            self._out.append("> " * min(self._quotes, 8))
        elif self._wants_space and not self._pre:
            self._out.append(" ")
        self._out.append(text)
        self._at_start = False
        self._wants_space = False

    def _open(self, mark: str) -> None:
        """Write an opening mark, such as `**`, without a space after it."""
        if mark:
            self._write(mark)

    def _close(self, mark: str) -> None:
        """Write a closing mark, such as `**`, without a space before it."""
        wants_space, self._wants_space = self._wants_space, False
        if mark:
            self._write(mark)
        self._wants_space = wants_space

    def _line(self, *, always: bool = False) -> None:
        if always or not self._at_start:
            self._out.append("\n")
        self._at_start = True
        self._wants_space = False

    def _block(self) -> None:
        self._line()
        self._out.append("\n")

    def _bullet(self) -> str:
        indent = "  " * min(len(self._lists) - 1, 8) if self._lists else ""
        if not self._lists or not self._lists[-1]:
            return f"{indent}- "
        self._lists[-1] += 1
        return f"{indent}{self._lists[-1] - 1}. "

    def _image(self, attributes: Mapping[str, str]) -> None:
        alt = _SPACES.sub(" ", attributes.get("alt", "")).strip()
        target = self._absolute_url(attributes.get("src", ""))
        if alt:
            self._write(f"![{alt}]({target})" if target else alt)

    def _absolute_url(self, target: str) -> str:
        try:
            joined = urljoin(self._url, target.strip()) if target and not target.startswith("#") else ""
        except ValueError:
            return ""
        return joined.replace(" ", "%20").replace(")", "%29") if joined.startswith(_LINKED) else ""

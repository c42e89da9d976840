"""Reads the summary of a docstring, and what it says of arguments and fields.

The styles are those of Google, NumPy, Sphinx and Epytext.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from keyword import iskeyword
from typing import Final

from agentrail.values.value import Value

_SECTION: Final = re.compile(
    r"((keyword|optional|other) )?(args?|arguments?|params?|parameters?|attributes|inputs|fields):\s*", re.IGNORECASE
)
_HEADING: Final = re.compile(r"[A-Z]\w*( \w+)?:\s*")
_ENTRY: Final = re.compile(
    r"(?:[-+*•]\s+)?[`*]*(\w+)[`*]*\s*(?:\((?:[^()]|\([^()]*\))*\))?(?:\s*:|\s+[-–—](?=\s))\s*(.*)"
)

_NUMPY_SECTION: Final = re.compile(r"((Other|Keyword) )?(Parameters|Arguments|Args)\s*|Attributes\s*")
_NUMPY_HEADING: Final = re.compile(r"[A-Z]\w*( \w+)?\s*")
_UNDERLINE: Final = re.compile(r"-{3,}\s*")
_NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")

_SPHINX_ENTRY: Final = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword|var|ivar|cvar)\s+(?:[^:]*\s)?\\?\*{0,2}(\w+):\s*(.*)"
)
_SPHINX_FIELD: Final = re.compile(r":\w+(\s[^:]*)?:(\s.*)?|@\w+(\s.*)?")
_EPYTEXT_ENTRY: Final = re.compile(r"@(?:param|arg|keyword|kwarg|ivar)\s+\*{0,2}(\w+)(?::|\s|$)\s*(.*)")

_ENDS_SUMMARY: Final = (_HEADING, _SECTION, _SPHINX_FIELD)


class Documented(Value):
    """The parts of a docstring."""

    summary: str
    """The first paragraph, on one line."""
    names: Mapping[str, str]
    """The text for each argument or field that is described."""


def read_docstring(text: str | None) -> Documented:
    """Read *text*, a docstring in the style of Google, NumPy, Sphinx or Epytext."""
    lines = inspect.cleandoc(text or "").splitlines()
    names: dict[str, str] = {}
    for entries in (_google_entries, _numpy_entries, _sphinx_entries):
        names.update((name, " ".join(" ".join(texts).split())) for name, texts in entries(lines))
    return Documented(_summary(lines), names)


def _summary(lines: list[str]) -> str:
    paragraph: list[str] = []
    for number, line in enumerate(lines):
        if not line.strip() or any(form.fullmatch(line) for form in _ENDS_SUMMARY) or _is_heading(lines, number):
            break
        paragraph.append(line.strip())
    return " ".join(paragraph)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _google_entries(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each name with its lines; a line that is indented deeper belongs to the name above it."""
    inside, depth = False, 0
    entry: tuple[str, list[str]] | None = None
    for line in lines:
        indent = _indent(line)
        if not line.strip():
            continue
        if indent == 0:
            inside, depth = _SECTION.fullmatch(line) is not None, 0
            continue
        if not inside:
            continue
        depth = depth or indent
        begun = _ENTRY.fullmatch(line.strip()) if indent <= depth else None
        if begun is not None:
            if entry is not None:
                yield entry
            entry = (begun[1], [begun[2]])
        elif entry is not None:
            entry[1].append(line)
    if entry is not None:
        yield entry


def _is_heading(lines: list[str], number: int) -> bool:
    """Whether a heading of NumPy's style, which is underlined, begins at this line."""
    return (
        _NUMPY_HEADING.fullmatch(lines[number]) is not None
        and number + 1 < len(lines)
        and _UNDERLINE.fullmatch(lines[number + 1]) is not None
    )


def _numpy_entries(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each name with its lines; several names may share a text, and lines of the text are indented."""
    inside = False
    names: list[str] = []
    texts: list[str] = []
    for number, line in enumerate(lines):
        if inside and line.strip() and _indent(line):
            texts.append(line)
        if not line.strip() or _indent(line) or _UNDERLINE.fullmatch(line):
            continue
        yield from ((name, texts) for name in names)
        names, texts = [], []
        if _is_heading(lines, number):
            inside = _NUMPY_SECTION.fullmatch(line) is not None
        elif inside and (begun := _NUMPY_ENTRY.fullmatch(line)) is not None:
            names = [name for name in re.findall(r"\w+", begun[1]) if not iskeyword(name)]  # "None" is no argument
    yield from ((name, texts) for name in names)


def _sphinx_entries(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each name with its lines; a line that is indented belongs to the field above it."""
    entry: tuple[str, list[str]] | None = None
    for line in lines:
        if entry is not None and (not line.strip() or _indent(line)):
            entry[1].append(line)
            continue
        if entry is not None:
            yield entry
        begun = _SPHINX_ENTRY.fullmatch(line) or _EPYTEXT_ENTRY.fullmatch(line)
        entry = None if begun is None else (begun[1], [begun[2]])
    if entry is not None:
        yield entry

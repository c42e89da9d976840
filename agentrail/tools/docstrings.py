"""Reads docstrings of tools: the first paragraph, and the text of each name under `Args:` or `Attributes:`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Final

from agentrail.values.value import Value

_SECTION: Final = re.compile(r"(Args|Arguments|Parameters|Attributes):\s*")
_HEADING: Final = re.compile(r"[A-Z]\w*( \w+)?:\s*")
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


class Documented(Value):
    """The parts of a docstring."""

    summary: str
    """The first paragraph, on one line."""
    names: Mapping[str, str]
    """The text for each name under `Args:` or `Attributes:`."""


def read_docstring(text: str | None) -> Documented:
    """Read *text*, a docstring in Google's style."""
    lines = inspect.cleandoc(text or "").splitlines()
    names = {name: " ".join(" ".join(said).split()) for name, said in _entries(lines)}
    return Documented(_summary(lines), names)


def _summary(lines: list[str]) -> str:
    paragraph: list[str] = []
    for line in lines:
        if not line.strip() or _HEADING.fullmatch(line):
            break
        paragraph.append(line.strip())
    return " ".join(paragraph)


def _entries(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each name with its lines; a line that is indented deeper belongs to the name above it."""
    inside, depth = False, 0
    entry: tuple[str, list[str]] | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
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

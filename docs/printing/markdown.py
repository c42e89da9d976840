"""Functions that return Markdown (tables, code, sections) as text or lists of lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table."""
    return [_row(header), _row(["---"] * len(header)), *(_row([_cell(text) for text in row]) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def code(text: str) -> str:
    """Return *text* as code."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def codes(names: Iterable[str]) -> str:
    """Return *names* as code, separated by commas."""
    return ", ".join(map(code, names))


def section(title: str, *blocks: Iterable[str], level: int = 3) -> list[str]:
    """Return a heading with *blocks* below it, a blank line between all of them; empty blocks are left out."""
    lines = [f"{'#' * level} {title}"]
    for block in map(list, blocks):
        if block:
            lines += ["", *block]
    return lines


def joined(blocks: Iterable[Iterable[str]]) -> list[str]:
    """Return *blocks* one below the other, with a blank line in between."""
    lines: list[str] = []
    for block in map(list, blocks):
        if block:
            lines += ["", *block] if lines else block
    return lines


_NEXT_SENTENCE: Final = re.compile(r"(?<=[.!?]) (?=[A-Z`*])")


def paragraphs(text: str) -> list[list[str]]:
    """Return the paragraphs of *text*, which may be a docstring, with each sentence on a line of its own."""
    return [_NEXT_SENTENCE.split(" ".join(part.split())) for part in text.split("\n\n") if part.strip()]

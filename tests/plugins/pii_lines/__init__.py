"""Lines with and without personal data and secrets, by kind; what is to be taken out stands between `⟦` and `⟧`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import frozen

HERE: Final = Path(__file__).parent
NOTHING: Final = "¦"
NEW_LINE: Final = "␤"


@frozen
class PiiLine:
    """One line of the corpus."""

    kind: str
    """The kind that is looked for."""
    text: str
    """The text to search."""
    spans: tuple[tuple[int, int], ...]
    """Where something of the kind is, in order."""


def read(name: str) -> tuple[PiiLine, ...]:
    """Return the lines of a file of the corpus."""
    lines = (HERE / name).read_text("utf-8").splitlines()
    return tuple(_line(line) for line in lines if line and not line.startswith("#"))


def _line(line: str) -> PiiLine:
    kind, _, marked = line.replace(NOTHING, "").replace(NEW_LINE, "\n").partition(": ")
    text = ""
    spans: list[tuple[int, int]] = []
    for piece in marked.split("⟦"):
        inside, found, after = piece.partition("⟧")
        if found:
            spans.append((len(text), len(text) + len(inside)))
        text += inside + after
    return PiiLine(kind, text, tuple(spans))


LINES: Final = (*read("personal.txt"), *read("secrets.txt"))

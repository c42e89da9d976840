"""`Found`: a passage of a document, with its citation and its place in the text."""

from __future__ import annotations

import msgspec


class Found(msgspec.Struct, frozen=True):
    """A passage of a document."""

    document: str
    """Name of the document."""
    number: int
    """Number of the passage in the document, from 0."""
    heading: str
    """The headings above it, outermost first, with ` > ` between; empty if there are none."""
    start: int
    """Number of the first character of the passage in the document, from 0."""
    end: int
    """Number of the character after its last one."""
    text: str
    """Its text: the characters from `start` to `end` of the document."""
    score: float = 0.0
    """How well it fits a query, the sum of its reciprocal ranks; 0 if it was not searched for."""

    @property
    def citation(self) -> str:
        """How an answer cites it between `[[` and `]]`, such as `handbook.md#3`."""
        return f"{self.document}#{self.number}"

"""Quotations: what stands in quotes is one word for the templates."""

from __future__ import annotations

import re

from agentrail.adapters.models.demo.templates import QUOTED
from agentrail.values.value import Value, value

_IN_QUOTES = re.compile(
    r"```(?:[\w+-]*\n)?(?P<fence>.*?)\n?```"
    r"|`(?P<tick>[^`]+)`"
    r"|“(?P<curly>[^”]+)”"
    r'|(?<![\w"])"(?P<double>[^"]*)"(?!\w)'
    r"|(?<![\w'])'(?P<single>[^']*)'(?!\w)",
    re.DOTALL,
)
_MASK = re.compile(QUOTED)


@value
class Masked(Value):
    """A text with a mark in place of each quotation."""

    text: str
    """The text with its marks."""
    quotes: tuple[tuple[str, str], ...]
    """Each quotation: with its quotes, and what is in them."""

    def inside(self, piece: str) -> str:
        """Return what *piece* of the text says: without its quotes if it is one quotation, else as it was."""
        bare = piece.strip()
        if _MASK.fullmatch(bare):
            return self.quotes[int(bare[1:-1])][1]
        return self.whole(bare)

    def whole(self, piece: str) -> str:
        """Return *piece* of the text as it was."""
        return _MASK.sub(lambda mark: self.quotes[int(mark[0][1:-1])][0], piece)


def mask(text: str) -> Masked:
    """Return *text* with its quotations masked."""
    quotes: list[tuple[str, str]] = []

    def put(found: re.Match[str]) -> str:
        quotes.append((found[0], next(said for said in found.groups() if said is not None)))
        return f"\ue000{len(quotes) - 1}\ue001"

    masked = _IN_QUOTES.sub(put, text.replace("\ue000", "").replace("\ue001", ""))
    return Masked(masked, tuple(quotes))

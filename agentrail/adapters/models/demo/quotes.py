"""Replaces quotations in a text by marks, so that the templates see each quotation as one word."""

from __future__ import annotations

import re

from agentrail.adapters.models.demo.templates import QUOTED
from agentrail.values.value import Value

_IN_QUOTES = re.compile(
    r"```(?:[\w+-]*\n)?(?P<fence>.*?)\n?```"
    r"|`(?P<tick>[^`]+)`"
    r"|“(?P<curly>[^”]+)”"
    r'|(?<![\w"])"(?P<double>[^"]*)"(?!\w)'
    r"|(?<![\w'])'(?P<single>[^']*)'(?!\w)",
    re.DOTALL,
)
_MASK = re.compile(QUOTED)


class Masked(Value):
    """A text with a mark in place of each quotation."""

    text: str
    """The text with its marks; a mark contains the index of its quotation in `quotes`."""
    quotes: tuple[tuple[str, str], ...]
    """Each quotation twice: with its quote characters, and without them."""

    def inside(self, piece: str) -> str:
        """Return the original of *piece* of the text, without the quote characters if it is exactly one quotation."""
        bare = piece.strip()
        if _MASK.fullmatch(bare):
            return self.quotes[int(bare[1:-1])][1]
        return self.whole(bare)

    def whole(self, piece: str) -> str:
        """Return the original of *piece* of the text: each mark becomes its quotation again, with its quotes."""
        return _MASK.sub(lambda mark: self.quotes[int(mark[0][1:-1])][0], piece)


def mask(text: str) -> Masked:
    """Return *text* with a mark in place of each quotation."""
    quotes: list[tuple[str, str]] = []

    def put(found: re.Match[str]) -> str:
        quotes.append((found[0], next(said for said in found.groups() if said is not None)))
        return f"\ue000{len(quotes) - 1}\ue001"

    masked = _IN_QUOTES.sub(put, text.replace("\ue000", "").replace("\ue001", ""))
    return Masked(masked, tuple(quotes))

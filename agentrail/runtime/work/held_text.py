"""`HeldText`: holds a response's text back until it is screened, so that deltas have nothing that is screened out.

A plugin may replace any part of a text, so pieces cannot be screened each for itself. A place where the text is cut is
safe if screening both sides apart gives the same as screening them together: then nothing that is replaced crosses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

REACH: Final = 200
"""How many characters after the end of a piece are screened with it before it is told."""

LONGEST: Final = 400
"""The most characters of a sentence; a longer one is cut at a space, or anywhere if it has none."""

STEP: Final = 32
"""The least characters that must come between two searches for a place to cut."""

TRIES: Final = 3
"""How many places are tried in one search."""

_ENDS: Final = re.compile(r"[.!?:;…][\"'”’)\]]*\s|[。！？\n]")  # noqa: RUF001 - ends of sentences in other languages
"""The end of a sentence or of a line."""


class HeldText:
    """The text of a response that was received and is not told yet."""

    __slots__ = ("_held", "_length", "_next", "_screen")

    def __init__(self, screen: Callable[[str], str]) -> None:
        self._screen = screen
        self._held: list[str] = []
        self._length = 0
        self._next = REACH

    def feed(self, piece: str) -> tuple[str, str]:
        """Take the next piece; return the text that may be told now: as it was received, and as it is told."""
        self._held.append(piece)
        self._length += len(piece)
        return self._cut() if self._length >= self._next else ("", "")

    def end(self) -> tuple[str, str]:
        """Return all that is still held: as it was received, and as it is told."""
        text = "".join(self._held)
        self._keep("", REACH)
        return text, self._screen(text)

    def _cut(self) -> tuple[str, str]:
        text = "".join(self._held)
        places = _places(text, len(text) - REACH)
        whole = self._screen(text) if places else ""
        for place in places:
            told = self._screen(text[:place])
            if told + self._screen(text[place:]) == whole:
                self._keep(text[place:], max(len(text) - place + STEP, REACH))
                return text[:place], told
        # Something that is replaced may go on. The next search is after twice as much, so that all searches together
        # take time in proportion to the text.
        self._keep(text, 2 * len(text) if places else len(text) + STEP)
        return "", ""

    def _keep(self, text: str, wanted: int) -> None:
        self._held = [text] if text else []
        self._length = len(text)
        self._next = wanted


def _places(text: str, limit: int) -> list[int]:
    """Return the last places up to *limit* where a sentence or a line of *text* ends, the last one first."""
    ends = [found.end() for found in _ENDS.finditer(text, 0, max(limit, 0))]
    if ends or limit < LONGEST:
        return ends[: -TRIES - 1 : -1]
    space = text.rfind(" ", 0, limit) + 1
    return [space] if space else [limit]

"""`HeldText` and `HeldReports`: hold texts back until they are screened, so that nothing is told that is screened out.

A plugin may replace any part of a text, so pieces cannot be screened each for itself. A place where the text is cut is
safe if screening both sides apart gives the same as screening them together: then nothing that is replaced crosses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from agentrail.runtime.work.screens import WITHHELD

LONGEST: Final = 400
"""The most characters of a sentence; a longer one is cut at a space, or anywhere if it has none."""

STEP: Final = 32
"""The least characters that must come between two searches for a place to cut."""

STEPS: Final = 8
"""In how many searches the characters that are looked at after a piece are received, if they are many."""

TRIES: Final = 3
"""How many places are tried in one search."""

MOST_HELD: Final = 1_000_000
"""The most characters of a call's reports that are held; if they are more, a mark is told in their place."""

_ENDS: Final = re.compile(r"[.!?:;…][\"'”’)\]]*\s|[。！？\n]")  # noqa: RUF001 - ends of sentences in other languages
"""The end of a sentence or of a line."""


class HeldText:
    """The text of a response that was received and is not told yet.

    After each place where it is cut, *reach* characters must have come: what is taken out as one may be so long.
    """

    __slots__ = ("_held", "_length", "_next", "_reach", "_screen", "_step")

    def __init__(self, screen: Callable[[str], str], reach: int) -> None:
        self._screen = screen
        self._reach = reach
        self._step = max(STEP, reach // STEPS)
        self._held: list[str] = []
        self._length = 0
        self._next = reach

    def feed(self, piece: str) -> tuple[str, str]:
        """Take the next piece; return the text that may be told now: as it was received, and as it is told."""
        self._held.append(piece)
        self._length += len(piece)
        return self._cut() if self._length >= self._next else ("", "")

    def end(self) -> tuple[str, str]:
        """Return all that is still held: as it was received, and as it is told."""
        text = "".join(self._held)
        self._keep("", self._reach)
        return text, self._screen(text)

    def places(self, text: str, limit: int) -> list[int]:
        """Return where *text* may be cut, up to *limit*: the last ends of sentences or lines, the last one first."""
        return _places(text, limit)

    def _cut(self) -> tuple[str, str]:
        text = "".join(self._held)
        places = self.places(text, len(text) - self._reach)
        whole = self._screen(text) if places else ""
        for place in places:
            told = self._screen(text[:place])
            if told + self._screen(text[place:]) == whole:
                self._keep(text[place:], max(len(text) - place + self._step, self._reach))
                return text[:place], told
        # Something that is replaced may go on. The next search is after twice as much, so that all searches together
        # take time in proportion to the text.
        self._keep(text, 2 * len(text) if places else len(text) + self._step)
        return "", ""

    def _keep(self, text: str, wanted: int) -> None:
        self._held = [text] if text else []
        self._length = len(text)
        self._next = wanted


class HeldReports(HeldText):
    """The reports of a call that were received and are not told yet; it is cut between two reports only."""

    __slots__ = ("_ends",)

    def __init__(self, screen: Callable[[str], str], reach: int) -> None:
        super().__init__(screen, reach)
        self._ends: list[int] = []

    def places(self, text: str, limit: int) -> list[int]:  # noqa: ARG002 - that of the base
        """Return the ends of the last reports up to *limit*, the last one first."""
        return [end for end in self._ends if end <= limit][: -TRIES - 1 : -1]

    def reports(self, update: str) -> list[str]:
        """Take the next report; return those that may be told now, each to be screened."""
        self._ends.append(self._length + len(update))
        received, told = self.feed(update)
        if self._length > MOST_HELD:
            self.left()
            return [WITHHELD]
        return self._split(received, told)

    def left(self) -> list[str]:
        """Return the reports that are still held, each to be screened."""
        return self._split(*self.end())

    def _split(self, received: str, told: str) -> list[str]:
        """Return the reports in *received*; as one, if something that is taken out goes over two of them."""
        begins, found = 0, list[str]()
        ends = [end for end in self._ends if end <= len(received)]
        self._ends = [end - len(received) for end in self._ends[len(ends) :]]
        for end in ends:
            found.append(received[begins:end])
            begins = end
        return found if "".join(map(self._screen, found)) == told else [received]


def _places(text: str, limit: int) -> list[int]:
    """Return the last places up to *limit* where a sentence or a line of *text* ends, the last one first."""
    ends = [found.end() for found in _ENDS.finditer(text, 0, max(limit, 0))]
    if ends or limit < LONGEST:
        return ends[: -TRIES - 1 : -1]
    space = text.rfind(" ", 0, limit) + 1
    return [space] if space else [limit]

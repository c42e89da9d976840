"""`ChoiceList`: rows below all that stays, of which the person chooses one by the arrows, or its number, and Enter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from prompt_toolkit.keys import Keys

from agentrail.cli.output.screen import TerminalStyle, Tone, clean, clipped, painted, wrapped
from agentrail.cli.output.screen_question import SEEN

MOST_CHOICES: Final = 10
"""The most rows that are shown at once."""

POINTED_AT: Final = "▸ "
OTHER: Final = "  "

STEPS: Final = {Keys.Up: -1, Keys.Down: 1, Keys.ControlP: -1, Keys.ControlN: 1, Keys.BackTab: -1, Keys.Tab: 1}
"""By how many rows a key goes on."""

AWAY: Final = frozenset({Keys.Escape, Keys.ControlC, Keys.ControlD})
"""The keys that choose none."""

ENTER: Final = frozenset({Keys.Enter, Keys.ControlJ})


class ChoiceList:
    """The choice of one row; without rows, a text that stands there until a key takes it away."""

    def __init__(
        self,
        heading: str,
        rows: Sequence[str],
        answer: Callable[[int | None], None],
        previews: Sequence[Sequence[str]] = (),
        start: int = 0,
    ) -> None:
        """Create it; *answer* gets the index of the chosen row, or `None`, once.

        The row at *start* is pointed at first; *previews* has rows for each row, shown below while it is pointed at.
        """
        self._heading = heading
        self._rows = rows
        self._answer = answer
        self._previews = previews
        self._index = start
        self._digits = ""  # the number typed so far
        self._enter_from = monotonic() + SEEN  # when Enter chooses, in seconds

    def press(self, key: str) -> bool:
        """Take a key; return whether the choice is over.

        Enter chooses only what could be seen, and never as the end of a line: a letter that means nothing here, and an
        Enter that comes too early, are dropped with each Enter until there was a pause.
        """
        is_early = bool(self._rows) and monotonic() < self._enter_from
        if key in AWAY or (key in ENTER and not is_early):
            self._answer(self._index if key in ENTER and self._rows else None)
            return True
        if key in STEPS and self._rows:
            self._index, self._digits = (self._index + STEPS[Keys(key)]) % len(self._rows), ""
        elif key.isdecimal():
            self._number(key)
        else:
            self._enter_from = monotonic() + SEEN
        return False

    def _number(self, digit: str) -> None:
        """Go to the row with the number that *digit* completes, or else begins."""
        for digits in (self._digits + digit, digit):
            if 0 < int(digits) <= len(self._rows):
                self._index, self._digits = int(digits) - 1, digits
                return

    def drawn(self, look: TerminalStyle) -> list[str]:
        """Return the rows to draw: the heading, and of the others those around the chosen one."""
        preview = self._previews[self._index] if self._previews else ()
        below = [painted(clipped(clean(row), look.room), Tone.DIM, look) for row in preview]
        most = max(min(MOST_CHOICES, look.height - 4 - len(below)), 1)
        first = min(max(self._index - most // 2, 0), max(len(self._rows) - most, 0))
        heading = [painted(row, Tone.ASKING, look) for row in wrapped(clean(self._heading), look.room)]
        last = min(first + most, len(self._rows))
        return [*heading, *(self._drawn_row(index, look) for index in range(first, last)), *below]

    def _drawn_row(self, index: int, look: TerminalStyle) -> str:
        is_chosen = index == self._index
        row = clipped(f"{POINTED_AT if is_chosen else OTHER}{clean(self._rows[index])}", look.room)
        return painted(row, Tone.BOLD if is_chosen else Tone.PLAIN, look)

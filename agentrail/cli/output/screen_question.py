"""`ScreenQuestion`: what a person is asked at a terminal, and what a single key does meanwhile."""

from __future__ import annotations

from typing import Final

from agentrail.cli.output.screen import ScreenText
from agentrail.values.value import Value

SEEN: Final = 0.5
"""Seconds that a question is shown before it is answered: what was being typed is no answer.

As long nothing may come before a key that decides by itself, or follow it: it may be a letter of a sentence.
"""


class ScreenQuestion(Value):
    """A question at the bottom of a terminal, which the next text answers, or a single key."""

    rows: tuple[ScreenText, ...] = ()
    """Text of the question."""
    end: int = 0
    """How many of the last rows are in sight in any case; of a text that has no room, rows before them are folded.

    0: nothing is folded.
    """
    keys: str = ""
    """The keys that answer it alone: `y` and `n` if nothing follows, `e` and `r` at once; empty if none does."""
    always: str = ""
    """What an approval for always lets pass, in words that are shown before it counts; empty if there can be none."""
    can_leave: bool = False
    """Whether Escape sends an empty text, which goes back; otherwise it stops what runs."""
    goes_on: bool = False
    """Whether it is a part of the question before it, so that nothing new has to be seen."""


NO_QUESTION: Final = ScreenQuestion()

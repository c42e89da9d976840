"""`Retention`: for how long sessions that have ended are kept."""

from __future__ import annotations

from typing import cast

from agentrail.errors import WrongType
from agentrail.values.foreign import number, shown
from agentrail.values.value import Authored

A_DAY = 24 * 60 * 60 * 1000
"""Milliseconds of a day."""


class Retention(Authored):
    """Deletes sessions that ended so many *days* ago, with their sub-agents; with *label*, only those that have it."""

    days: float
    """Days after its last record from which on an ended session is deleted."""
    label: str | None = None
    """A label that a session must have; `None`: any session."""

    def __post_init__(self) -> None:
        """Raise `WrongType` for days that are no number from 0 on, or a label that is no text."""
        days: object = self.days
        plain = number(days)
        if plain is None or plain < 0:
            raise WrongType("days", shown(days), "a number of days, 0 or more")
        label = cast("object", self.label)
        if not isinstance(label, str | None):
            raise WrongType("label", shown(label), "a label, as text, or nothing for all sessions")

    def ended_before(self, now: int) -> int:
        """Return the time up to which sessions are deleted at the time *now*, in milliseconds since 1970."""
        return now - round(self.days * A_DAY)

"""`TidyingUp`: compresses what a journal in memory has kept as objects, once nothing is written any more."""

from __future__ import annotations

from typing import Final, Protocol

from agentrail.runtime.shared.clock import Timers

QUIET_AFTER: Final = 1.0
"""Seconds without a new record after which it begins; at most twice as long."""

NEXT_PASS: Final = 0.001
"""Seconds between two pieces of the work, in which others run."""

_KEY: Final = ("", "crowded journal")
"""Key of the timer; no session has the empty id."""


class PackingJournal(Protocol):
    """Interface: a journal in memory, which has work for the time when nothing is written."""

    @property
    def should_page_out(self) -> bool:
        """Whether `page_out` has anything to do."""
        ...

    def page_out(self) -> None:
        """Do a piece of the work, in some 0.4 ms."""
        ...


class TidyingUp:
    """Pages out what the journal has in memory, piece by piece, when no record was written for a while.

    Done during the turns of a busy session, this work would take a third of their time.
    """

    __slots__ = ("_has_written", "_is_due", "_journal", "_timers")

    def __init__(self, timers: Timers, journal: PackingJournal | None) -> None:
        self._timers = timers
        self._journal = journal
        self._has_written = False  # whether a record was written since the timer was set
        self._is_due = False  # whether the timer is set

    def note_written(self) -> None:
        """Note that a record was written."""
        self._has_written = True
        if self._journal is not None and not self._is_due and self._journal.should_page_out:
            self._look_in(QUIET_AFTER)

    def _look_in(self, seconds: float) -> None:
        """Set the timer for the next look, in *seconds*."""
        self._has_written, self._is_due = False, True
        self._timers.set(_KEY, self._timers.clock.now() + seconds, self._look)

    def _look(self) -> None:
        """Page out one piece if nothing was written since the last look, and set the next timer if more is left."""
        self._is_due = False
        journal, has_written = self._journal, self._has_written
        if journal is None or not journal.should_page_out:
            return
        if not has_written:
            journal.page_out()
        if journal.should_page_out:
            self._look_in(QUIET_AFTER if has_written else NEXT_PASS)

"""Reports steps whose hooks were slow. One report waits in the mailbox at most, and no report is about a report."""

from __future__ import annotations

import logging
from typing import Final

from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.inputs import AnyInput, HooksWereSlow
from agentrail.core.vocabulary.state import State
from agentrail.runtime.diagnosis.watchdog import BLOCKED
from agentrail.runtime.inbox.mailbox import Letter, Mailbox

log = logging.getLogger("agentrail.session")

SLOW_HOOKS: Final = 0.05
"""Seconds that the hooks of one step may take before it is reported."""


class SlowHooks:
    """Tells a session that its hooks are slow."""

    __slots__ = ("_mailbox", "_session_id", "_waiting")

    def __init__(self, session_id: str, mailbox: Mailbox) -> None:
        self._session_id = session_id
        self._mailbox = mailbox
        self._waiting: Letter | None = None

    def took(self, elapsed: float, before: State, given: AnyInput, outcome: Step) -> None:
        """Report the hooks of a step that took *elapsed* seconds, if that was long; a report that waits takes it in.

        The log alone is told of a step that was such a report itself, or that put the session to sleep: a letter about
        it would be slow again, or wake the session, for ever.
        """
        if elapsed <= (SLOW_HOOKS if before.seats else BLOCKED):
            return
        took = int(elapsed * 1000)
        log.warning("session %s: the hooks of a step took %d ms", self._session_id, took)
        if isinstance(given, HooksWereSlow) or outcome.state.asleep:
            return
        waiting = self._waiting
        longest = waiting.given.elapsed_ms if waiting and isinstance(waiting.given, HooksWereSlow) else 0
        report = HooksWereSlow(tuple(seat.key for seat in before.seats), max(took, longest))
        if waiting is not None:
            waiting.given = report
        else:
            self._waiting = Letter(report)
            self._mailbox.post_result(self._waiting)

    def taken(self) -> None:
        """Take note that the report is handled: the next one is a letter of its own."""
        self._waiting = None

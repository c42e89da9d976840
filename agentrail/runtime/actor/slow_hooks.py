"""Reports steps whose hooks were slow. One report waits in the mailbox at most, and no report is about a report."""

from __future__ import annotations

import logging
from typing import Final

from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.inputs import AnyInput, HooksWereSlow
from agentrail.core.vocabulary.state import State
from agentrail.runtime.diagnosis.watchdog import BLOCKED
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox

log = logging.getLogger("agentrail.session")

SLOW_HOOKS: Final = 0.05
"""Seconds that a step may take, its hooks included, before it is reported; without plugins it is `BLOCKED`."""


class SlowHooks:
    """Reports slow hooks of one session: in the log, and by a letter that makes the event `PluginSlow`."""

    __slots__ = ("_mailbox", "_session_id", "_waiting")

    def __init__(self, session_id: str, mailbox: Mailbox) -> None:
        self._session_id = session_id
        self._mailbox = mailbox
        self._waiting: Letter | None = None

    def took(self, elapsed: float, before: State, input_: AnyInput, outcome: Step) -> None:
        """Report a step whose hooks took *elapsed* seconds, if that is too long: write a log line and post a letter.

        If an earlier letter still waits in the mailbox, it is changed to the longest time, and none is posted. No
        letter is posted about a step that handled such a letter, or that put the session to sleep: handling the new
        letter would be slow again, or would wake the session, without end.
        """
        if elapsed <= (SLOW_HOOKS if before.plugins else BLOCKED):
            return
        took = int(elapsed * 1000)
        log.warning("session %s: the hooks of a step took %d ms", self._session_id, took)
        if isinstance(input_, HooksWereSlow) or outcome.state.asleep:
            return
        waiting = self._waiting
        longest = waiting.input.elapsed_ms if waiting and isinstance(waiting.input, HooksWereSlow) else 0
        report = HooksWereSlow(tuple(seat.key for seat in before.plugins), max(took, longest))
        if waiting is not None:
            waiting.input = report
        else:
            self._waiting = Letter(report)
            self._mailbox.post_result(self._waiting)

    def note_taken(self) -> None:
        """Note that the waiting letter is being handled, so that the next slow step posts a new one."""
        self._waiting = None

"""Reports steps whose hooks were slow. One report waits in the mailbox at most, and no report is about a report."""

from __future__ import annotations

import logging
from typing import Final

from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.inputs import AnyInput, HooksWereSlow
from agentrail.core.vocabulary.state import State
from agentrail.runtime.diagnosis.watchdog import BLOCKED
from agentrail.runtime.inbox.mailbox import Mailbox

log = logging.getLogger("agentrail.session")

SLOW_HOOKS: Final = 0.05
"""Seconds that a step may take, its hooks included, before it is reported; without plugins it is `BLOCKED`."""


def report_slow_hooks(mailbox: Mailbox, elapsed: float, old: State, input_: AnyInput, outcome: Step) -> None:
    """Report a step whose hooks took *elapsed* seconds, if that is too long: write a log line and post a letter.

    If an earlier letter still waits in the mailbox, it is changed to the longest time, and none is posted. No
    letter is posted about a step that handled such a letter, or that put the session to sleep: handling the new
    letter would be slow again, or would wake the session, without end.
    """
    if elapsed <= (SLOW_HOOKS if old.plugins else BLOCKED):
        return
    took = int(elapsed * 1000)
    log.warning("session %s: the hooks of a step took %d ms", old.session_id, took)
    if isinstance(input_, HooksWereSlow) or outcome.state.asleep:
        return
    keys = tuple(attached.key for attached in old.plugins)
    waiting = mailbox.find_result(HooksWereSlow)
    if waiting is not None and isinstance(waiting.input, HooksWereSlow):
        waiting.input = HooksWereSlow(keys, max(took, waiting.input.elapsed_ms))
    else:
        mailbox.post(HooksWereSlow(keys, took))

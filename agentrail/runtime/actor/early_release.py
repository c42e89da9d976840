"""Callers of `abort` and `stop` do not wait for a journal that cannot write: what is to stop has stopped before."""

from __future__ import annotations

from collections.abc import Iterable

from agentrail.core.vocabulary.commands import DONE, AbortSent, Refused, StopSent
from agentrail.errors import AgentrailError, NotWrittenYet
from agentrail.runtime.inbox.mailbox import Letter


def relieve(session_id: str, letters: Iterable[Letter], stuck: AgentrailError) -> None:
    """Answer the callers that wait for aborts and stops among *letters*, which stay and are written when they can be.

    An abort is done, as far as its caller can see. What was to be found in the journal is not there: the end of the
    session, and the answer to a command id.
    """
    for letter in letters:
        given = letter.given
        if not letter.slots or not isinstance(given, AbortSent | StopSent):
            continue
        done = isinstance(given, AbortSent) and letter.command is None
        letter.settle(DONE if done else Refused(NotWrittenYet(session_id, str(stuck))))
        letter.slots.clear()

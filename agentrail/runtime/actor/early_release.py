"""Early answers: callers of `abort` and `stop` do not wait while the journal cannot write, as the work has stopped."""

from __future__ import annotations

from collections.abc import Iterable

from agentrail.core.vocabulary.commands import DONE, AbortSent, Refused, StopSent
from agentrail.errors import AgentrailError, NotWrittenYet
from agentrail.runtime.inbox.letter import Letter


def relieve(session_id: str, letters: Iterable[Letter], stuck: AgentrailError) -> None:
    """Answer callers of aborts and stops in *letters* early; the letters stay, and are journaled when possible.

    An abort without a command id is answered as done. A stop, or an abort with a command id, is answered with
    `NotWrittenYet`: the end of the session, and the answer to the id, are not in the journal yet.
    """
    for letter in letters:
        given = letter.given
        if not letter.slots or not isinstance(given, AbortSent | StopSent):
            continue
        done = isinstance(given, AbortSent) and letter.command is None
        letter.settle(DONE if done else Refused.of(NotWrittenYet(session_id, str(stuck))))
        letter.slots.clear()

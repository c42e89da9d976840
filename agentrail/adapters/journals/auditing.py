"""Audits a stored session: makes its recorded steps again, and tells where today's code does otherwise."""

from __future__ import annotations

from typing import Final

import trio

from agentrail.core.audit import Audit, Difference
from agentrail.core.vocabulary.state import State
from agentrail.errors import SessionNotStored
from agentrail.ports.journal import Journal, Record, Redaction, folded, opening_of
from agentrail.values.spelling import checked

REDACTED: Final = "redacted"
"""What `Difference.what` says of a record that was redacted, or of one after it of which nothing can be told."""

PAGE: Final = 100
"""How many records are audited before other tasks may run."""


@checked
async def audit(journal: Journal, session_id: str) -> tuple[Difference, ...]:
    """Return where today's code would do otherwise than the records of a session say; empty if nowhere.

    The inputs and the decisions of plugins are taken from the records: no plugin, tool or model is asked. Each step is
    made from the state that the records before it lead to, so one difference causes no others. The session need not be
    stopped, and nothing is written.

    A record that was redacted is told as such, with the time and by whom. Whether a later one would differ cannot be
    told if it depends on the texts that are gone.
    """
    found: list[Difference] = []
    steps = Audit()
    state: State | None = None
    redacted: Record | None = None
    number = 0
    while records := await journal.read(session_id, number, PAGE):
        for record in records:
            before = opening_of(record) if state is None else state
            state = folded(before, record)
            if record.redacted is not None:
                redacted = record
                found.append(_told(record, record.redacted))
            elif redacted is None:
                found += steps.differences(before, state, record)
            elif steps.differences(before, state, record):
                found.append(
                    Difference(record.number, REDACTED, "", f"record {redacted.number} before it was redacted")
                )
        number = records[-1].number
        await trio.lowlevel.checkpoint()
    if state is None:
        raise SessionNotStored(session_id)
    return tuple(found)


def _told(record: Record, note: Redaction) -> Difference:
    return Difference(record.number, REDACTED, "", f"at {note.at} (milliseconds since 1970), by {note.by}")

"""Audits stored sessions: repeats the steps from the records, and renders the requests to the model again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import trio

from agentrail.core.audit import Audit, Difference
from agentrail.core.machine.requests import sent_request
from agentrail.core.vocabulary.state import State
from agentrail.errors import BadRecord, SessionNotStored
from agentrail.ports.journal import Journal, Record, Redaction, folded, opening_of
from agentrail.values.argument_checks import checked
from agentrail.values.stream import ModelRequest
from agentrail.values.untrusted_values import error_text

REDACTED: Final = "redacted"
"""What `Difference.what` says of a record that was redacted, or of one after it of which nothing can be told."""

PAGE: Final = 100
"""How many records are audited before other tasks may run."""


@checked
async def audit(journal: Journal, session_id: str) -> tuple[Difference, ...]:
    """Repeat the steps of a session; return each difference between today's code and the records.

    The inputs and the decisions of plugins are taken from the records: no plugin, tool or model is asked. Each step is
    made from the state that the records before it lead to, so one difference causes no others. The session need not be
    stopped, and nothing is written.

    A redacted record is reported as such, with the time and the user. A later difference stays unknown if it depends on
    the texts that are gone.
    """
    differences: list[Difference] = []
    steps = Audit()
    state: State | None = None
    redacted: Record | None = None
    number = 0
    while records := await journal.read(session_id, number, PAGE):
        for record in records:
            old_state = opening_of(record) if state is None else state
            state = folded(old_state, record)
            if record.redacted is not None:
                redacted = record
                differences.append(_redacted_difference(record, record.redacted))
            elif redacted is None:
                differences += steps.differences(old_state, state, record)
            elif steps.differences(old_state, state, record):
                differences.append(
                    Difference(record.number, REDACTED, "", f"record {redacted.number} before it was redacted")
                )
        number = records[-1].number
        await trio.lowlevel.checkpoint()
    if state is None:
        raise SessionNotStored(session_id)
    return tuple(differences)


def _redacted_difference(record: Record, note: Redaction) -> Difference:
    return Difference(record.number, REDACTED, "", f"at {note.at} (milliseconds since 1970), by {note.by}")


def _requests_in(records: Iterable[Record], state: State | None) -> Iterator[tuple[State, ModelRequest | None]]:
    """Yield the state after each record, and the request that its step sent to the model, if any.

    *state* is the one before the first of the *records*; `None` if that is the first of the session.
    """
    for record in records:
        old_state = opening_of(record) if state is None else state
        state = folded(old_state, record)
        try:
            request = sent_request(old_state, state)
        except (ValueError, LookupError) as error:
            problem = f"its model request does not fit the state after it: {error_text(error)}"
            raise BadRecord(record.session_id, record.number, problem) from error
        yield state, request


@checked
async def model_requests(journal: Journal, session_id: str) -> tuple[ModelRequest, ...]:
    """Return the requests to the model of a session, each as the model got it, from the records alone.

    The requests of plugins (`CallModel`) are not among them. No step is repeated, so newer code returns the same
    requests. Of a session that was redacted, texts are replaced by a mark.
    """
    requests: list[ModelRequest] = []
    state: State | None = None
    number = 0
    while records := await journal.read(session_id, number, PAGE):
        for after, request in _requests_in(records, state):
            state = after
            if request is not None:
                requests.append(request)
        number = records[-1].number
        await trio.lowlevel.checkpoint()
    if state is None:
        raise SessionNotStored(session_id)
    return tuple(requests)

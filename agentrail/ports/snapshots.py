"""Snapshots: what they keep of a history, which ones a journal takes, and how the rest of a history is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agentrail.core.vocabulary.state import State
from agentrail.core.vocabulary.stems import Results, Stem, appended, note_results
from agentrail.errors import BadRecord
from agentrail.ports.journal import Claim, Record, Snapshot
from agentrail.values.content import File, Image
from agentrail.values.foreign import crash
from agentrail.values.messages import History

MOST_KEPT: Final = 512 * 1024
"""Characters of the largest history that a snapshot keeps whole, so that it is read at once.

Of a larger one it keeps the stem: writing all of it for each snapshot would take as long as the session is large.
"""

OF_A_MESSAGE: Final = 64
"""Characters that a message counts beside its text."""


def check_snapshot(claim: Claim, snapshot: Snapshot, head: int) -> None:
    """Raise `BadRecord` if *snapshot* is of another session than the claimed one, or of a record after its *head*."""
    since = snapshot.number if snapshot.since is None else snapshot.since
    if snapshot.session_id != claim.session_id or not 0 <= since <= snapshot.number or not 0 < snapshot.number <= head:
        found = f"there is no such one, so session `{snapshot.session_id}` has no snapshot behind it"
        raise BadRecord(claim.session_id, snapshot.number, found)


def snapshot_of(state: State, number: int, stem: Stem) -> Snapshot:
    """Return the snapshot of a session in *state* after record *number*; *stem* is that of its history."""
    history = state.history
    if stem.number == number or _is_small(history):
        return Snapshot(state.session_id, number, state)
    return Snapshot(state.session_id, number, state.but(history=history.first(stem.length)), stem.number)


def length_of(history: History) -> int:
    """Return about how many characters *history* takes when it is written; images and files count by their cost."""
    return history.size + OF_A_MESSAGE * len(history)


def _is_small(history: History) -> bool:
    size = length_of(history)
    if size <= MOST_KEPT:  # of images and files, `size` counts what they cost the model
        size += sum([len(part.data) for each in history for part in each.parts if isinstance(part, Image | File)])
    return size <= MOST_KEPT


def stem_of(snapshot: Snapshot) -> Stem:
    """Return the stem of the history that a session has after *snapshot*."""
    state = snapshot.state
    if snapshot.since is None:
        return Stem(snapshot.number, len(state.history), state.batch is None)
    return Stem(snapshot.since, len(state.history))


def grown(history: History, records: Iterable[Record], results: Results) -> History:
    """Return *history* with the messages that *records* have appended; *results* is empty for the first ones.

    Raise `BadRecord` if a record does not fit.
    """
    for record in records:
        try:
            if record.opening is not None:
                history = record.opening.history
                note_results(record.opening.batch, results)
            messages = appended(record.change, results)
        except BaseException as error:  # whatever the values of a damaged record raise, the error names the record
            problem = f"the messages that it appends cannot be told: {crash(error)}"
            raise BadRecord(record.session_id, record.number, problem) from error  # noqa: ASYNC104 - nothing is awaited
        if messages:
            history = history.and_(*messages)
    return history

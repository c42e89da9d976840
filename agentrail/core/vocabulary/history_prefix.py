"""`Stem`: the first messages of a history, after which its session's records have only appended others.

A snapshot keeps a stem and leaves the other messages out, because the records have them. They are read from there when
the session comes back.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from msgspec import UNSET, UnsetType

from agentrail.core.vocabulary.changes import Appended, Change, ChangedCalls, ResultOf
from agentrail.core.vocabulary.state import State
from agentrail.core.vocabulary.tool_calls import Batch
from agentrail.values.messages import Message, Rearranged, ToolMessage

Results: TypeAlias = dict[str, ToolMessage]
"""Results of the calls of the open batch, by the ids of the calls."""


class Stem(NamedTuple):
    """The messages that a history had after one of its session's records."""

    number: int
    """Number of that record; 0 stands for the beginning of the session."""
    length: int
    """How many messages that were; those of the session's opening are in its first record, and do not count."""
    is_settled: bool = True
    """Whether no batch was open then: a later record names a result of an open batch by its call alone."""


NO_STEM: Final = Stem(0, 0)
"""The stem of a history to which all records of the session have only appended."""


def stem_after(stem: Stem, number: int, change: Change, after: State) -> Stem:
    """Return the stem of the history after record *number*, which has made *change* and led to the state *after*."""
    if stem.is_settled and type(change.history) is not Rearranged:
        return stem
    return Stem(number, len(after.history), after.batch is None)


def appended(change: Change, results: Results) -> list[Message]:
    """Return the messages that a record has appended; add the results of its batch to *results*.

    Raise `ValueError` or `LookupError` if the record changed the history otherwise, or names a result that is not in
    *results*.
    """
    form = change.history
    messages: list[Message] = []
    if isinstance(form, Appended):
        messages = [results[message.call_id] if isinstance(message, ResultOf) else message for message in form.messages]
    elif form is not UNSET:
        problem = "it rearranges the history, and a snapshot says that it only appends to it"
        raise ValueError(problem)
    note_results(change.batch, results)
    return messages


def note_results(batch: Batch | ChangedCalls | UnsetType | None, results: Results) -> None:
    """Update *results* with those of the open batch after a record whose change of the batch is *batch*."""
    if batch is None or isinstance(batch, Batch) or (batch is not UNSET and batch.begins):
        results.clear()
    if isinstance(batch, Batch):
        results.update({call.call_id: call.result for call in batch.calls if call.result is not None})
    elif isinstance(batch, ChangedCalls):
        results.update(
            {
                changed_call.call_id: changed_call.result
                for changed_call in batch.put
                if isinstance(changed_call.result, ToolMessage)
            }
        )

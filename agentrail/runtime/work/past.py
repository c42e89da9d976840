"""Reads all messages of a session from its records, also those that compactions have taken out of the context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from agentrail.core.vocabulary.changes import Appended, ResultOf
from agentrail.core.vocabulary.inputs import CompactionEnded
from agentrail.core.vocabulary.stems import Results, note_results
from agentrail.ports.journal import Journal, Record
from agentrail.ports.tool import PastMessage
from agentrail.values.messages import Added, Message, Range, Rearranged

PAGE: Final = 100
"""How many records are read at once."""


class StoredPast:
    """The messages of one session, read from a journal; of a fork, from the history with which it began."""

    __slots__ = ("_journal", "_session_id")

    def __init__(self, journal: Journal, session_id: str) -> None:
        self._journal = journal
        self._session_id = session_id

    async def messages(
        self, after: int, limit: int, wanted: Callable[[Message], bool] | None = None
    ) -> tuple[PastMessage, ...]:
        """Return up to *limit* messages after number *after*: all, or those of which *wanted* returns `True`."""
        said = _Said(after, wanted)
        head = 0
        while len(said.found) < limit:
            records = await self._journal.read(self._session_id, head, PAGE)
            for record in records:
                said.take(record)
                head = record.number
            if len(records) < PAGE:
                break
            await trio.lowlevel.checkpoint()
        return tuple(PastMessage(number, said.found[number]) for number in sorted(said.found)[:limit])


class _Said:
    """What was said up to a record: numbers the messages, and keeps those that are wanted."""

    def __init__(self, after: int, wanted: Callable[[Message], bool] | None) -> None:
        self.found: dict[int, Message] = {}
        self._after = after
        self._wanted = wanted
        self._number = 0
        self._context: list[int] = []  # the numbers of the messages in the context; 0 for what a compaction put there
        self._results = Results()

    def take(self, record: Record) -> None:
        """Take over the messages that *record* has appended."""
        if record.opening is not None:
            for message in record.opening.history:
                self._add(message)
            note_results(record.opening.batch, self._results)
        form = record.change.history
        if isinstance(form, Appended):
            for each in form.messages:
                self._add(self._results[each.call_id] if isinstance(each, ResultOf) else each)
        elif isinstance(form, Rearranged):
            given = record.arrival.input
            self._rearrange(form, len(given.messages) if isinstance(given, CompactionEnded) else None)
        note_results(record.change.batch, self._results)

    def _add(self, message: Message) -> None:
        self._number += 1
        self._context.append(self._number)
        if self._number > self._after and (self._wanted is None or self._wanted(message)):
            self.found[self._number] = message

    def _rearrange(self, form: Rearranged, compacted: int | None) -> None:
        """Follow the context; the first *compacted* messages are those that a compaction has left.

        If it is `None`, a plugin has replaced a message: what is in its place was said, and it itself was not.
        """
        before, self._context = self._context, []
        for piece in form.pieces:
            if isinstance(piece, Range):
                self._context += before[piece.start : piece.stop]
            elif compacted is not None and len(self._context) < compacted:
                self._context.append(0)
            else:
                self._add(piece.message if isinstance(piece, Added) else piece)
        if compacted is None:
            for number in {*before} - {*self._context}:
                self.found.pop(number, None)

"""Reads messages of a session from its records, also those that compactions have taken out of the context.

The number of a message is that of the record which appended it, and its place there. So a range of messages is read
from the records that have it, however long the session is; only a search reads more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio
from msgspec import UNSET

from agentrail.core.vocabulary.changes import Appended, ResultOf
from agentrail.core.vocabulary.history_prefix import Results, note_results
from agentrail.core.vocabulary.inputs import CompactionEnded
from agentrail.ports.journal import Journal, Record
from agentrail.ports.tool import MESSAGES_PER_RECORD, PastMessage
from agentrail.values.messages import Added, AssistantMessage, Message, MessageRange, Rearranged

PAGE: Final = 100
"""How many records are read at once."""

FURTHER: Final = 4
"""How many times as many records are read the next time, if those before a record lack the results that it names."""


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
        search = _Said(after, wanted)
        head = max(0, after // MESSAGES_PER_RECORD - 1)
        while True:
            records = await self._read(head, PAGE)
            for record in records:
                lacking = search.lacking(record)
                if lacking:
                    search.results.update(await self._results_before(record.number, lacking))
                was_enough = len(search.found) >= limit
                search.take(record)
                may_change = search.may_change and not (was_enough and record.change.history is not UNSET)
                if len(search.found) >= limit and not may_change:
                    return search.first(limit)
                if wanted is not None:
                    await trio.lowlevel.checkpoint()
            if len(records) < PAGE:
                return search.first(limit)
            head = records[-1].number

    async def _read(self, after: int, limit: int) -> tuple[Record, ...]:
        """Return up to *limit* records after number *after*."""
        return await self._journal.read(self._session_id, after, limit)

    async def _results_before(self, number: int, lacking: set[str]) -> Results:
        """Search backwards for the results of the calls *lacking*; return those of the batch open before *number*."""
        back = PAGE
        while True:
            start = max(0, number - 1 - back)
            results = Results()
            for record in await self._read(start, number - 1 - start):
                if record.opening is not None:
                    note_results(record.opening.batch, results)
                note_results(record.change.batch, results)
            if not start or lacking <= results.keys():
                return results
            back *= FURTHER


class _Said:
    """Collects the messages of the records passed to `take`: numbers them, and keeps the wanted ones."""

    def __init__(self, after: int, matches: Callable[[Message], bool] | None) -> None:
        self.found: dict[int, Message] = {}
        self.results = Results()
        self.may_change = False  # whether a plugin may still replace the last message
        self._after = after
        self._wanted = matches
        self._number = 0
        self._last = 0

    def first(self, limit: int) -> tuple[PastMessage, ...]:
        """Return the first *limit* messages that were kept."""
        return tuple([PastMessage(number, self.found[number]) for number in sorted(self.found)[:limit]])

    def lacking(self, record: Record) -> set[str]:
        """Return the calls whose results *record* appends, if none of the records taken has these results."""
        form = record.change.history
        if not isinstance(form, Appended):
            return set()
        return {result.call_id for result in form.messages if isinstance(result, ResultOf)} - self.results.keys()

    def take(self, record: Record) -> None:
        """Collect the messages that *record* has appended."""
        self._number = record.number * MESSAGES_PER_RECORD
        if record.opening is not None:
            for message in record.opening.history:
                self._add(message)
            note_results(record.opening.batch, self.results)
        form = record.change.history
        if isinstance(form, Appended):
            for added in form.messages:
                self._add(self.results[added.call_id] if isinstance(added, ResultOf) else added)
        elif isinstance(form, Rearranged):
            input_ = record.arrival.input
            self._rearrange(form, len(input_.messages) if isinstance(input_, CompactionEnded) else None)
        note_results(record.change.batch, self.results)

    def _add(self, message: Message) -> None:
        """Number *message*, and keep it if it is wanted."""
        self._last = self._number
        self.may_change = isinstance(message, AssistantMessage)
        if self._number > self._after and (self._wanted is None or self._wanted(message)):
            self.found[self._number] = message
        self._number += 1

    def _rearrange(self, form: Rearranged, compacted: int | None) -> None:
        """Add the new messages of a rearranged history; its first *compacted* messages are those a compaction kept.

        If *compacted* is `None`, a plugin has replaced the last message: the replacement counts, and the replaced one
        does not.
        """
        if compacted is None:
            self.found.pop(self._last, None)
        length = 0
        for piece in form.pieces:
            if isinstance(piece, MessageRange):
                length += piece.stop - piece.start
                continue
            if compacted is None or length >= compacted:
                self._add(piece.message if isinstance(piece, Added) else piece)
            length += 1

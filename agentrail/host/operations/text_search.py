"""Searches what people and models said in stored sessions: a bounded number of records for each request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

import trio
from attrs import frozen

from agentrail.api.views import PassageView
from agentrail.errors import BadRecord, SessionBeingDeleted
from agentrail.ports.journal import Journal, Record, StoredSession
from agentrail.values.events.envelope import Event
from agentrail.values.events.life import PromptReceived, SteeringReceived
from agentrail.values.events.response import ResponseComplete

MOST_SESSIONS: Final = 200
"""In how many sessions a request searches."""

MOST_RECORDS: Final = 5_000
"""After how many records a request begins no further session; of a longer session, the last ones are searched."""

AT_ONCE: Final = 200
"""How many records are read at once."""

BEFORE: Final = 60
"""How many characters before the text a passage has, at most."""

AFTER: Final = 120
"""How many characters from the beginning of the text on a passage has, at most."""


@frozen
class Searched:
    """What a search has found, and how far it has come."""

    hits: tuple[tuple[StoredSession, PassageView | None], ...]
    """Sessions that have the text, each with its first passage; and those that cannot be read, without one."""
    count: int
    """In how many of the sessions it has searched."""


class TextSearch:
    """Searches in the records of sessions: the journal reads them, and a worker thread compares their texts."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._workers = trio.CapacityLimiter(1)  # so that the event loop has time beside it

    async def search(self, sessions: Sequence[StoredSession], text: str, most: int) -> Searched:
        """Search for *text* in *sessions*, in their order, until *most* have it or enough records were read."""
        pattern = re.compile(re.escape(text), re.IGNORECASE)
        hits: list[tuple[StoredSession, PassageView | None]] = []
        records = count = 0
        for session in sessions[:MOST_SESSIONS]:
            if len(hits) == most or records >= MOST_RECORDS:
                break
            count += 1
            records += min(session.head, MOST_RECORDS)
            try:
                passage = await self._first_passage(session, pattern)
            except BadRecord as error:
                hits.append((session.but(problem=str(error)), None))
                continue
            except SessionBeingDeleted:
                continue
            if passage is not None:
                hits.append((session, passage))
        return Searched(tuple(hits), count)

    async def _first_passage(self, session: StoredSession, pattern: re.Pattern[str]) -> PassageView | None:
        after = max(0, session.head - MOST_RECORDS)
        while records := await self._journal.read(session.session_id, after, AT_ONCE):
            work = partial(_passage, records, pattern)
            passage = await trio.to_thread.run_sync(work, limiter=self._workers, abandon_on_cancel=True)
            if passage is not None:
                return passage
            after = records[-1].number
        return None


def _passage(records: Sequence[Record], pattern: re.Pattern[str]) -> PassageView | None:
    """Return the first passage that *pattern* finds in what was said in *records*."""
    for record in records:
        for envelope in record.events:
            words = _words_of(envelope.event)
            match = pattern.search(words)
            if match is not None:
                first, end = max(0, match.start() - BEFORE), match.start() + AFTER
                return PassageView(envelope.seq, envelope.at, words[first:end])
    return None


def _words_of(event: Event) -> str:
    """Return what a person or the model has said, if *event* tells that."""
    match event:
        case PromptReceived() | SteeringReceived():
            return event.text
        case ResponseComplete():
            return event.message.text
        case _:
            return ""

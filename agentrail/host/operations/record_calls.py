"""Calls that explain a session by its records: the records, their states and times, what the model saw, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import trio

from agentrail.api.bodies import AboutQuery, RecordsQuery, SeenQuery, StateAtQuery, TimelineQuery
from agentrail.api.insight_views import (
    AccountView,
    RecordsView,
    RecordView,
    SeenView,
    StateAtView,
    TimelineView,
)
from agentrail.api.limits import INSIGHT_RECORDS, MOST_PAGE, page_of
from agentrail.api.public_ids import SessionName
from agentrail.api.views import to_json
from agentrail.errors import UnknownRecord, UsageError
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.call import Answer, OperationCall
from agentrail.host.operations.record_views import (
    account_view,
    phases_of,
    record_view,
    rounds_in,
    seen_view,
    state_view,
    timeline_view,
)
from agentrail.insight.account import number_or_id, why
from agentrail.insight.field_changes import Moment
from agentrail.insight.lanes import timeline
from agentrail.insight.seen_request import requests, seen
from agentrail.ports.journal import Journal, Record, folded, opening_of
from agentrail.runtime.actor.journal_log import rebuild_state

T = TypeVar("T")

AT_ONCE: Final = 16
"""How many records of a page are read and made into views at once, as each may be large."""

PAGE_BYTES: Final = 256 * 1024
"""Bytes of JSON from which on no more records are added to a page."""

BACK: Final = 512
"""How many records before a place are looked at to find the phase, or the turn, that it is in."""

ALL_AT_ONCE: Final = 1_000
"""How many records are read at once if all are needed."""

WORKERS: Final = 2
"""How many threads work on records at once, so that they leave time to the event loop."""


class RecordCalls:
    """Carries out the calls that show and explain the records of a session; it is neither started nor woken.

    Work that grows with the records is done in a few worker threads, so that the event loop does not wait for it.
    """

    def __init__(self, sessions: HostedSessions, journal: Journal) -> None:
        self._sessions = sessions
        self._journal = journal
        self._workers = trio.CapacityLimiter(WORKERS)
        self._readers = trio.CapacityLimiter(WORKERS)  # of those who hold all records of a session in memory

    async def records(self, call: OperationCall) -> Answer:
        """Show a page of the records of a session, or one record with all of its texts."""
        query = call.query(RecordsQuery)
        name = self._sessions.name(call.row, call.who, call.session)
        head = (await self._sessions.stored(name)).head
        if query.record is not None:
            if query.since is not None or query.limit is not None:
                raise UsageError("bad-query", call.row.name, "its `record`", "does not go with `since` and `limit`")
            return call.view_answer(await self._record(name, query.record, head))
        after, limit = query.since or 0, page_of(query.limit)
        views = await self._page(name, after, limit)
        last = views[-1].number if views else after
        return call.view_answer(RecordsView(tuple(views), max(head, last), more=last < head))

    async def _record(self, name: SessionName, number: int, head: int) -> RecordsView:
        records = await self._journal.read(name.internal, number - 1, 1)
        if not records:
            raise UnknownRecord(name.visible, number)
        phase = await self._phase_after(name, number - 1)
        (view,) = await self._worked_out(partial(_views, records, phase, name.tenant, is_whole=True))
        return RecordsView((view,), max(head, number), more=number < head)

    async def _page(self, name: SessionName, after: int, limit: int) -> list[RecordView]:
        """Return at most *limit* records after number *after*: fewer if they are long."""
        phase = await self._phase_after(name, after)
        views: list[RecordView] = []
        size = 0
        while len(views) < limit and size < PAGE_BYTES:
            records = await self._journal.read(name.internal, after, min(AT_ONCE, limit - len(views)))
            if not records:
                break
            more = await self._worked_out(partial(_views, records, phase, name.tenant, is_whole=False))
            for record in more:
                views.append(record)
                size += len(to_json(record))
                if size >= PAGE_BYTES:
                    break
            after, phase = views[-1].number, views[-1].phase_after
        return views

    async def _phase_after(self, name: SessionName, number: int) -> str | None:
        """Return the phase after record *number*; `None` if the records before it do not tell."""
        last, size, end = number, AT_ONCE, max(0, number - BACK)
        while last > end:
            first = max(end, last - size)
            records = await self._journal.read(name.internal, first, last - first)
            for _, after in reversed(tuple(phases_of(records, None))):
                if after is not None:
                    return after
            last, size = first, size * 2
        return None

    async def why(self, call: OperationCall) -> Answer:
        """Tell why a call, a turn or an end of a session came about."""
        subject = number_or_id(call.query(AboutQuery).about)
        name = self._sessions.name(call.row, call.who, call.session)

        def explained(records: Sequence[Record]) -> AccountView:
            return account_view(why(records, subject), name.tenant, MOST_PAGE)

        return call.view_answer(await self._of_all(name, explained))

    async def state_at(self, call: OperationCall) -> Answer:
        """Show the state of a session after a record, and what the record changed.

        The records before it are folded as when the session comes back, from a snapshot if there is one before it.
        """
        query = call.query(StateAtQuery)
        name = self._sessions.name(call.row, call.who, call.session)
        head = (await self._sessions.stored(name)).head
        number = query.record
        records = await self._journal.read(name.internal, number - 1, 1)
        if not records:
            raise UnknownRecord(name.visible, number)
        (record,) = records
        old_state = (
            opening_of(record) if number == 1 else (await rebuild_state(self._journal, name.internal, number - 1)).state
        )

        def reply() -> StateAtView:
            return state_view(
                Moment(record, old_state, folded(old_state, record)), head, name.tenant, is_whole=query.whole
            )

        return call.view_answer(await self._worked_out(reply))

    async def timeline(self, call: OperationCall) -> Answer:
        """Show what ran when in a session, and a row for each of some records."""
        query = call.query(TimelineQuery)
        name = self._sessions.name(call.row, call.who, call.session)
        most = MOST_PAGE
        limit = min(query.limit or most, most)

        def reply(records: Sequence[Record]) -> TimelineView:
            return timeline_view(timeline(records), query.since or 0, limit, name.tenant)

        return call.view_answer(await self._of_all(name, reply))

    async def seen(self, call: OperationCall) -> Answer:
        """Show what the model saw with one request."""
        query = call.query(SeenQuery)
        if query.round is not None and query.request is not None:
            raise UsageError("bad-query", call.row.name, "its `round`", "does not go with `request`")
        name = self._sessions.name(call.row, call.who, call.session)
        which = query.request if query.round is None else query.round

        def reply(records: Sequence[Record]) -> SeenView:
            count = rounds_in(requests(records))
            return seen_view(seen(records, which), count, name.tenant, is_whole=query.whole)

        return call.view_answer(await self._of_all(name, reply))

    async def _of_all(self, name: SessionName, work: Callable[[Sequence[Record]], T]) -> T:
        """Return what *work*, in a worker thread, makes of all records of a session; raise if they are too many."""
        head = (await self._sessions.stored(name)).head
        if head > INSIGHT_RECORDS:
            raise UsageError("history-too-long", head, INSIGHT_RECORDS)
        async with self._readers:
            records: list[Record] = []
            while page := await self._journal.read(name.internal, len(records), ALL_AT_ONCE):
                records += page
            return await self._worked_out(partial(work, records))

    async def _worked_out(self, work: Callable[[], T]) -> T:
        """Do *work* in a worker thread; it goes on for a moment if the caller is cancelled."""
        return await trio.to_thread.run_sync(work, limiter=self._workers, abandon_on_cancel=True)


def _views(records: Sequence[Record], phase: str | None, tenant: str, *, is_whole: bool) -> list[RecordView]:
    phases = phases_of(records, phase)
    return [
        record_view(record, *around, tenant, is_whole=is_whole) for record, around in zip(records, phases, strict=True)
    ]

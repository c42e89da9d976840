"""`TreeFeed`: the sessions of a host as rows, of which those that listen are sent what changed.

It is made in one place: a change is gathered for a moment, then its row is made and encoded once, and each listener
whose filter it fits is given the same bytes. While nobody listens, it keeps nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import trio

from agentrail.api import socket_frames
from agentrail.api.bodies import RowsQuery
from agentrail.api.limits import HostLimits
from agentrail.api.public_ids import beginning, named, read_internal, visible
from agentrail.api.views import RowsView, RowView, to_json, view
from agentrail.host.health.troubles import Troubles
from agentrail.host.operations.call_request import CallRequest
from agentrail.host.operations.event_frames import AT_ONCE
from agentrail.runtime.diagnosis.session_listener import SessionListener
from agentrail.runtime.supervision.session_rows import SessionRows

STEP: Final = 100
"""How many rows are made without a pass of the scheduler."""

ASLEEP: Final = "asleep"
GONE: Final = b"null"


class KnownRow(NamedTuple):
    """A row, and its JSON, which is made once for all who listen."""

    row: RowView
    text: bytes


def rows_query(request: CallRequest) -> RowsQuery:
    """Return which rows *request* asks for, with the whole id of the session that it names."""
    query, who = request.query(RowsQuery), request.who
    return query if query.session is None else query.but(session=named(who.tenant, who.user, query.session).visible)


class TreeFeed(SessionListener):
    """Gathers which sessions of a host have changed, and tells those who listen."""

    def __init__(self, rows: SessionRows, troubles: Troubles, seconds: float) -> None:
        self._rows = rows
        self._troubles = troubles
        self._seconds = seconds
        self._listeners: dict[str, list[TreeListener]] = {}  # by tenant
        self._known: dict[str, KnownRow] = {}  # by internal id, of tenants that have listeners
        self._totals = Counter[str]()
        self._dirty: dict[str, None] = {}
        self._has_changed = trio.Event()
        self.made = 0
        """How many rows were made."""

    # Called by sessions

    def changed(self, session_id: str) -> None:
        """Note that the row of a session may be another one; no-op while nobody listens."""
        if self._listeners:
            self._dirty[session_id] = None
            self._has_changed.set()

    # Listening

    async def run(self) -> None:
        """Body of the task that tells the listeners what has changed."""
        while True:
            await self._has_changed.wait()
            self._has_changed = trio.Event()
            dirty, self._dirty = self._dirty, {}
            for place, session_id in enumerate(dirty, 1):
                self._look_at(session_id)
                if not place % STEP:
                    await trio.lowlevel.checkpoint()
            for listener in [listener for of_tenant in self._listeners.values() for listener in of_tenant]:
                listener.wake()
            await trio.sleep(self._seconds)

    @asynccontextmanager
    async def listening(self, tenant: str, query: RowsQuery, limits: HostLimits) -> AsyncGenerator[TreeListener, None]:
        """Yield a listener for the rows of *tenant* that fit *query*, which has those that are there now."""
        most = min(query.limit or limits.page, limits.most_page)
        listener = TreeListener(query, most, self._known, lambda: self._totals[tenant])
        self._listeners.setdefault(tenant, []).append(listener)
        try:
            await self._fill(listener, tenant)
            yield listener
        finally:
            self._leave(listener, tenant)

    async def _fill(self, listener: TreeListener, tenant: str) -> None:
        """Give *listener* the rows of *tenant* that are there; those that change meanwhile come as changes."""
        first = beginning(tenant)
        for place, session_id in enumerate([id_ for id_ in self._rows.ids() if id_.startswith(first)], 1):
            known_row = self._known.get(session_id)
            if known_row is None:
                self._look_at(session_id)
            else:
                listener.take(session_id, known_row.row)
            if not place % STEP:
                await trio.lowlevel.checkpoint()

    def _leave(self, listener: TreeListener, tenant: str) -> None:
        """Forget *listener*; if it was the last one of its tenant, forget the rows of the tenant."""
        self._listeners[tenant].remove(listener)
        if not self._listeners[tenant]:
            del self._listeners[tenant], self._totals[tenant]
            first = beginning(tenant)
            for session_id in [id_ for id_ in self._known if id_.startswith(first)]:
                del self._known[session_id]

    def _look_at(self, session_id: str) -> None:
        """Make the row of a session anew, and tell the listeners of its tenant if it is another one."""
        name = read_internal(session_id)
        listeners = None if name is None else self._listeners.get(name.tenant)
        if name is None or listeners is None:
            return
        row, known_row = self._row(session_id), self._known.get(session_id)
        if row == (None if known_row is None else known_row.row):
            return
        self._totals[name.tenant] += (row is not None) - (known_row is not None)
        if row is None:
            del self._known[session_id]
        else:
            self._known[session_id] = KnownRow(row, to_json(row))
        for listener in listeners:
            listener.take(session_id, row)

    def _row(self, session_id: str) -> RowView | None:
        row = self._rows.row(session_id)
        if row is None:
            return None
        self.made += 1
        return view(RowView, row, session_id).but(trouble=self._troubles.last(session_id))


class TreeListener:
    """What one client is to be sent: the rows that fit its query, up to its limit.

    If a row leaves, another one that fits takes its place. Of a row that changes often, only the newest is sent.
    """

    def __init__(
        self, query: RowsQuery, most: int, known_rows: Mapping[str, KnownRow], count_all: Callable[[], int]
    ) -> None:
        self._query = query
        self._text = None if query.search is None else query.search.casefold()
        self._most = most
        self._known = known_rows
        self._count_all = count_all
        self._shown: dict[str, None] = {}  # rows that the client has, or gets
        self._waiting: dict[str, None] = {}  # rows that fit, beyond the limit
        self._unsent: dict[str, None] = {}
        self._sent_counts: tuple[int, int] | None = None
        self._event = trio.Event()

    @property
    def rows(self) -> RowsView:
        """The rows that are shown now."""
        return RowsView(tuple([self._known[session_id].row for session_id in self._shown]), *self._counts)

    @property
    def _counts(self) -> tuple[int, int]:
        """How many rows fit, and how many there are."""
        return len(self._shown) + len(self._waiting), self._count_all()

    def take(self, session_id: str, row: RowView | None) -> None:
        """Note that a session has this *row* now; `None` if it is gone."""
        if row is not None and self._fits(row):
            if session_id in self._shown or len(self._shown) < self._most:
                self._shown[session_id] = self._unsent[session_id] = None
            else:
                self._waiting[session_id] = None
        elif session_id in self._shown:
            del self._shown[session_id]
            self._unsent[session_id] = None
            if self._waiting:
                following = next(iter(self._waiting))
                del self._waiting[following]
                self._shown[following] = self._unsent[following] = None
        else:
            self._waiting.pop(session_id, None)

    def _fits(self, row: RowView) -> bool:
        query = self._query
        if query.session is not None and query.session != row.session:
            return False
        if query.phase is not None and query.phase != (ASLEEP if row.state == ASLEEP else row.phase):
            return False
        if query.held is not None and query.held != (row.held > 0):
            return False
        if query.trouble is not None and query.trouble != (row.trouble is not None):
            return False
        if self._text is None:
            return True
        texts = (row.session, row.title, row.agent, row.user, row.model, *[call.tool for call in row.running])
        return any(self._text in text.casefold() for text in texts)

    def wake(self) -> None:
        """Wake the task that waits for changes, if there are any."""
        if self._has_news:
            self._event.set()

    @property
    def _has_news(self) -> bool:
        return bool(self._unsent) or self._counts != self._sent_counts

    async def wait(self) -> None:
        """Wait until there is something to be sent."""
        while not self._has_news:
            self._event = trio.Event()
            await self._event.wait()

    def message(self, name: str) -> bytes:
        """Return the next message of the subscription *name*: changes up to a size; the others are left for later."""
        is_first, self._sent_counts = self._sent_counts is None, self._counts
        return socket_frames.changes(name, self._take_unsent(), *self._sent_counts, is_first=is_first)

    def _take_unsent(self) -> Iterator[tuple[str, bytes]]:
        size = 0
        while self._unsent and size < AT_ONCE:
            session_id = next(iter(self._unsent))
            del self._unsent[session_id]
            text = self._known[session_id].text if session_id in self._shown else GONE
            size += len(text)
            yield visible(session_id), text

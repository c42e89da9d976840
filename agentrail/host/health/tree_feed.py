"""`TreeFeed`: the sessions of a host as rows, of which those that listen are sent what changed.

It is made in one place: a change is gathered for a moment, then its row is made and encoded once, and each listener
whose filter it fits is given the same bytes. While nobody listens, it keeps nothing, but for a moment: whoever changes
a filter, or loads a page again, leaves and comes back, and the rows of a large tree take long to make.

`Troubles`: what went wrong of late in these sessions, by tenant, from their events; bounded, in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import islice
from typing import Final, NamedTuple

import trio

from agentrail.api import socket_frames
from agentrail.api.bodies import RowsQuery
from agentrail.api.limits import page_of
from agentrail.api.public_ids import beginning, is_within, named, read_internal, visible, without_tenant
from agentrail.api.views import RowsView, RowView, TroubleView, to_json, view
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.state import State
from agentrail.host.operations.call import OperationCall
from agentrail.host.operations.event_frames import AT_ONCE
from agentrail.runtime.diagnosis.session_listener import SessionListener
from agentrail.runtime.supervision.session_rows import SessionRows
from agentrail.values import events as e
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.newest import Newest

STEP: Final = 25
"""How many rows are made without a pass of the scheduler."""

LINGERS: Final = 5.0
"""Seconds for which the rows of a tenant are kept when nobody listens to them any more."""

ASLEEP: Final = "asleep"
GONE: Final = b"null"


class KnownRow(NamedTuple):
    """A row, and its JSON, which is made once for all who listen."""

    row: RowView
    text: bytes


class TenantRows:
    """The rows of one tenant, and those who listen to them."""

    def __init__(self) -> None:
        self.known: dict[str, KnownRow] = {}
        """The rows by internal id."""
        self.listeners: list[TreeListener] = []
        """Those who listen; none for a moment after the last one has left."""


def rows_query(call: OperationCall) -> RowsQuery:
    """Return which rows *call* asks for, with the whole id of the session that it names."""
    query, who = call.query(RowsQuery), call.who
    return query if query.session is None else query.but(session=named(who.tenant, who.user, query.session).visible)


class TreeFeed(SessionListener):
    """Gathers which sessions of a host have changed, and tells those who listen."""

    def __init__(self, rows: SessionRows, troubles: Troubles, seconds: float, host: str = "") -> None:
        self._rows = rows
        self._troubles = troubles
        self._seconds = seconds
        self._host = host
        self._tenants: dict[str, TenantRows] = {}
        self._dirty: dict[str, None] = {}
        self._has_changed = trio.Event()
        self._is_left = trio.Event()
        self.made_rows = 0
        """How many rows were made."""

    # Called by sessions

    def changed(self, session_id: str) -> None:
        """Note that the row of a session may be another one; no-op while nobody listens."""
        if self._tenants:
            self._dirty[session_id] = None
            self._has_changed.set()

    # Listening

    async def run(self) -> None:
        """Body of the task that tells the listeners what has changed."""
        while True:
            await self._has_changed.wait()
            self._has_changed = trio.Event()
            dirty, self._dirty = self._dirty, {}
            for number, session_id in enumerate(dirty, 1):
                self._look_at(session_id)
                if not number % STEP:
                    await trio.lowlevel.checkpoint()
            for listener in [listener for tenant in self._tenants.values() for listener in tenant.listeners]:
                listener.wake()
            await trio.sleep(self._seconds)

    async def forget(self) -> None:
        """Body of the task that forgets the rows to which nobody listens."""
        while True:
            await self._is_left.wait()
            self._is_left = trio.Event()
            await trio.sleep(LINGERS)
            for name in [name for name, tenant in self._tenants.items() if not tenant.listeners]:
                rows = self._tenants.pop(name).known
                while rows:  # to free all at once takes longer than others should wait
                    for session_id in list(islice(rows, STEP)):
                        del rows[session_id]
                    await trio.lowlevel.checkpoint()

    @asynccontextmanager
    async def listening(self, tenant: str, query: RowsQuery) -> AsyncGenerator[TreeListener, None]:
        """Yield a listener for the rows of *tenant* that fit *query*, which has those that are there now."""
        most = page_of(query.limit)
        rows = self._tenants.setdefault(tenant, TenantRows())
        listener = TreeListener(query, most, rows.known)
        rows.listeners.append(listener)
        try:
            await self._fill(listener, tenant)
            yield listener
        finally:
            rows.listeners.remove(listener)
            if not rows.listeners:
                self._is_left.set()

    async def _fill(self, listener: TreeListener, tenant: str) -> None:
        """Give *listener* the rows of *tenant* that are there; those that change meanwhile come as changes."""
        first, rows = beginning(tenant), self._tenants[tenant]
        for number, session_id in enumerate(self._rows.ids()):
            if not number % STEP:
                await trio.lowlevel.checkpoint()
            known_row = rows.known.get(session_id)
            if known_row is not None:
                listener.take(session_id, known_row.row)
            elif session_id.startswith(first):
                self._renew(session_id, rows)

    def _look_at(self, session_id: str) -> None:
        """Make the row of a session anew, if its tenant has listeners."""
        name = read_internal(session_id)
        tenant = None if name is None else self._tenants.get(name.tenant)
        if tenant is not None:
            self._renew(session_id, tenant)

    def _renew(self, session_id: str, tenant: TenantRows) -> None:
        """Make the row of a session of *tenant* anew, and tell the listeners if it is another one."""
        row, known_row = self._row(session_id), tenant.known.get(session_id)
        if row == (None if known_row is None else known_row.row):
            return
        if row is None:
            del tenant.known[session_id]
        else:
            tenant.known[session_id] = KnownRow(row, to_json(row))
        for listener in tenant.listeners:
            listener.take(session_id, row)

    def _row(self, session_id: str) -> RowView | None:
        row = self._rows.row(session_id)
        if row is None:
            return None
        self.made_rows += 1
        return view(RowView, row, session_id).but(trouble=self._troubles.last(session_id), host=self._host)


class TreeListener:
    """What one client is to be sent: the rows that fit its query, up to its limit.

    If a row leaves, another one that fits takes its place. Of a row that changes often, only the newest is sent.
    """

    def __init__(self, query: RowsQuery, most: int, known_rows: Mapping[str, KnownRow]) -> None:
        self._query = query
        self._text = None if query.search is None else query.search.casefold()
        self._most = most
        self._known_rows = known_rows
        self._shown_ids: dict[str, None] = {}  # rows that the client has, or gets
        self._waiting: dict[str, None] = {}  # rows that fit, beyond the limit
        self._unsent: dict[str, None] = {}
        self._elsewhere: dict[str, bytes] = {}  # rows of other hosts, by the ids that clients see
        self._unsent_elsewhere: dict[str, None] = {}
        self._counts_elsewhere = 0, 0
        self._missing: tuple[str, ...] = ()
        self._sent_counts: tuple[int, int, tuple[str, ...]] | None = None
        self._event = trio.Event()

    @property
    def rows(self) -> RowsView:
        """The rows that are shown now."""
        matching, total, missing = self._counts
        return RowsView(
            tuple([self._known_rows[session_id].row for session_id in self._shown_ids]), matching, total, missing
        )

    @property
    def _counts(self) -> tuple[int, int, tuple[str, ...]]:
        """How many rows fit, how many there are, and the hosts of which that is not known."""
        matching, total = self._counts_elsewhere
        return len(self._shown_ids) + len(self._waiting) + matching, len(self._known_rows) + total, self._missing

    def take_elsewhere(self, rows: RowsView) -> None:
        """Note the *rows* of other hosts, of which as many are sent as there is room for."""
        room = max(0, self._most - len(self._shown_ids))
        texts = {row.session: to_json(row) for row in rows.items[:room]}
        for session in {*texts, *self._elsewhere}:
            if texts.get(session) != self._elsewhere.get(session):
                self._unsent_elsewhere[session] = None
        self._elsewhere, self._counts_elsewhere, self._missing = texts, (rows.matching, rows.total), rows.missing
        self.wake()

    def take(self, session_id: str, row: RowView | None) -> None:
        """Note that a session has this *row* now; `None` if it is gone."""
        if row is not None and self._fits(row):
            if session_id in self._shown_ids or len(self._shown_ids) < self._most:
                self._shown_ids[session_id] = self._unsent[session_id] = None
            else:
                self._waiting[session_id] = None
        elif session_id in self._shown_ids:
            del self._shown_ids[session_id]
            self._unsent[session_id] = None
            if self._waiting:
                following = next(iter(self._waiting))
                del self._waiting[following]
                self._shown_ids[following] = self._unsent[following] = None
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
        return bool(self._unsent or self._unsent_elsewhere) or self._counts != self._sent_counts

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
        """Yield rows that changed. One that moves between hosts is not gone: another one has it, then."""
        size = 0
        if self._unsent_elsewhere:
            here = {visible(session_id) for session_id in self._shown_ids}
            while self._unsent_elsewhere and size < AT_ONCE:
                session, _ = self._unsent_elsewhere.popitem()
                if session not in here:
                    text = self._elsewhere.get(session, GONE)
                    size += len(text)
                    yield session, text
        while self._unsent and size < AT_ONCE:
            session_id = next(iter(self._unsent))
            del self._unsent[session_id]
            session = visible(session_id)
            text = (
                self._known_rows[session_id].text
                if session_id in self._shown_ids
                else self._elsewhere.get(session, GONE)
            )
            size += len(text)
            yield session, text


KEPT: Final = 1_000
"""How much is kept of one tenant: the newest."""

TENANTS: Final = 200
"""Of how many tenants something is kept: those with the newest trouble."""

SESSIONS: Final = 10_000
"""Of how many sessions the last trouble is kept."""

TEXT: Final = 200
"""The most characters of what is told of one trouble."""

EXPECTED: Final = ("user", "stopped")
"""Kinds of aborts that somebody asked for."""

BUDGET: Final = "budget_"
"""How the names of events begin that a plugin emits about a budget."""


class Troubles(SessionListener):
    """What went wrong of late; it listens to the steps of all sessions."""

    def __init__(self) -> None:
        self._of_tenant = Newest[str, deque[tuple[str, TroubleView]]](TENANTS)
        self._last = Newest[str, TroubleView](SESSIONS)

    def stepped(self, old: State, outcome: Step) -> None:
        """Note what the events of a step tell."""
        for envelope in outcome.events:
            kind_and_text = _trouble_in(envelope.event)
            if kind_and_text is not None:
                self._add(old.session_id, envelope, *kind_and_text)

    def _add(self, session_id: str, envelope: Envelope, kind: str, text: str) -> None:
        name = read_internal(session_id)
        if name is None:
            return
        trouble = TroubleView(
            visible(session_id), envelope.at, kind, without_tenant(text[:TEXT], name.tenant), str(envelope.cursor)
        )
        troubles = self._of_tenant.get(name.tenant) or deque(maxlen=KEPT)
        troubles.append((session_id, trouble))
        self._of_tenant[name.tenant] = troubles
        self._last[session_id] = trouble

    def last(self, session_id: str) -> TroubleView | None:
        """Return the last trouble of a session; `None` if none is kept."""
        return self._last.get(session_id)

    def newest_first(self, tenant: str) -> Iterator[TroubleView]:
        """Yield what is kept of a tenant."""
        return (trouble for _, trouble in reversed(self._of_tenant.get(tenant, ())))

    def erase(self, session_id: str) -> None:
        """Forget a session and its sub-agents, because the session or its texts are erased."""
        for tenant, troubles in tuple(self._of_tenant.items()):
            rest = [item for item in troubles if not is_within(item[0], session_id)]
            self._of_tenant[tenant] = deque(rest, KEPT)
        for other in [other for other in self._last if is_within(other, session_id)]:
            del self._last[other]


_OF_TROUBLE: Final = frozenset[type[Event]](
    (
        *(e.AgentAbort, e.InputQuarantined, e.PluginError, e.PluginEvent, e.Retry, e.SessionQuarantined),
        *(e.SessionRestarted, e.StreamStalled, e.ToolAbandoned, e.ToolUnknown),
    )
)
"""Events that may tell of trouble: most are others, and are not asked about one class after the other."""


def _trouble_in(event: Event) -> tuple[str, str] | None:
    """Return the kind of trouble that *event* tells of, and what it was; `None` if it tells of none."""
    if type(event) not in _OF_TROUBLE:
        return None
    match event:
        case e.SessionRestarted(cause=cause):
            return "crash", cause
        case e.SessionQuarantined(cause=cause):
            return "quarantine", cause
        case e.InputQuarantined(input=name, cause=cause):
            return "quarantine", f"{name}: {cause}"
        case e.ToolAbandoned(name=name):
            return "abandoned", name
        case e.ToolUnknown(name=name):
            return "doubt", name
        case e.StreamStalled(elapsed_s=seconds, count=count):
            return "stall", f"nothing came for {seconds:g} s, {count} times"
        case e.Retry(attempt=attempt, reason=reason):
            return "retry", f"attempt {attempt}: {reason}"
        case e.AgentAbort(kind=kind, reason=reason) if kind not in EXPECTED:
            return "abort", f"{kind}: {reason}" if reason else kind
        case e.PluginEvent(plugin=plugin, name=name) if name.startswith(BUDGET):
            return "budget", f"{plugin}: {name}"
        case e.PluginError(plugin=plugin, hook=hook, error=error):
            return "plugin", f"{plugin} at {hook}: {error}"
        case _:
            return None

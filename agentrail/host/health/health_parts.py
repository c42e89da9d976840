"""`HealthParts`: what watches the sessions of a host.

`LoopLag`: measures how late the event loop wakes a task that wants to be woken.

`HeldChanges`: tells those who show what waits for people when that has changed, so that they need not look again.

Calls for those who watch all sessions of a tenant: the tree as rows, and what went wrong, and figures over time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import islice, takewhile
from typing import Final, Self
from weakref import WeakValueDictionary

import trio
from attrs import frozen

from agentrail.api.bodies import FiguresQuery, TroubleQuery
from agentrail.api.limits import CHANGES_SECONDS, METRIC_TENANTS, page_of
from agentrail.api.operation_table import OPERATE
from agentrail.api.public_ids import read_internal
from agentrail.api.views import TroublesView
from agentrail.app.supervisor import Supervisor, rows_of
from agentrail.errors import UsageError
from agentrail.host.health.figures_history import HOUR, FiguresHistory
from agentrail.host.health.prometheus import MetricCalls
from agentrail.host.health.tree_feed import TreeFeed, Troubles, rows_query
from agentrail.host.operations.call import Answer, OperationCall
from agentrail.runtime.diagnosis.metrics import Figures
from agentrail.runtime.diagnosis.session_listener import SessionListener

TICK: Final = 0.5
"""Seconds between two measurements of how late the loop is."""

TICKS: Final = 20
"""Measurements that count: those of the last ten seconds."""


class LoopLag:
    """Measures how late the loop wakes a task that wants to be woken."""

    def __init__(self) -> None:
        self._late: deque[float] = deque([0.0], TICKS)
        self.when_measured: Callable[[float], None] = lambda _: None
        """Called with each measurement, in seconds."""

    @property
    def worst(self) -> float:
        """The longest delay of a wake-up in the last ten seconds, in seconds."""
        return max(self._late)

    async def measure(self) -> None:
        """Body of the task that measures, until it is cancelled."""
        while True:
            due = trio.current_time() + TICK
            await trio.sleep_until(due)
            late = trio.current_time() - due
            self._late.append(late)
            self.when_measured(late)


class HeldChanges(SessionListener):
    """The next change of what waits for people, of each tenant for whom somebody waits."""

    def __init__(self) -> None:
        self._next: WeakValueDictionary[str, trio.Event] = WeakValueDictionary()

    def following(self, tenant: str) -> trio.Event:
        """Return what is set by the next change in a session of *tenant* that runs here.

        It is asked for before a look: a change during the look is not missed.
        """
        event = self._next.get(tenant)
        if event is None:
            event = self._next[tenant] = trio.Event()
        return event

    def waiting_changed(self, session_id: str) -> None:
        """Wake those who wait for a change in the tenant of a session."""
        name = read_internal(session_id)
        event = None if name is None else self._next.pop(name.tenant, None)
        if event is not None:
            event.set()


@frozen
class HealthParts:
    """What watches the sessions of a host."""

    figures: Figures
    """Counts what all sessions do."""
    metrics: MetricCalls
    """Shows the figures as they are now."""
    troubles: Troubles
    """Keeps what went wrong of late."""
    tree: TreeFeed
    """Tells which rows of the tree have changed."""
    held_changes: HeldChanges
    """Tells when other calls wait for people."""
    history: FiguresHistory
    """Keeps the figures of the last hours."""
    lag: LoopLag
    """Measures how late the event loop is."""

    @property
    def when_erased(self) -> tuple[Callable[[str], None], ...]:
        """What forgets a session whose records or texts are erased."""
        return self.troubles.erase, self.history.erase, self.held_changes.waiting_changed

    @classmethod
    @contextmanager
    def watching(cls, supervisor: Supervisor, host: str = "") -> Generator[Self]:
        """Watch the sessions of *supervisor* as long as this is open; *host* is the address of one of several."""
        figures, troubles = supervisor.figures(METRIC_TENANTS), Troubles()
        tree = TreeFeed(rows_of(supervisor), troubles, CHANGES_SECONDS, host)
        history = FiguresHistory(lambda: figures.now_ms, figures.tell, figures.tell_no_more)
        lag = LoopLag()
        held_changes = HeldChanges()
        lag.when_measured = history.lagged
        with figures.telling(troubles, tree, held_changes):
            try:
                yield cls(figures, MetricCalls(figures), troubles, tree, held_changes, history, lag)
            finally:
                history.end()


SERIES: Final = 10
"""How many series are shown, unless the caller says."""

MOST_SERIES: Final = 100
"""The most series that are shown."""


class WatchCalls:
    """Carries out the calls that show the sessions of a tenant as rows, what went wrong in them, and their figures."""

    def __init__(self, health: HealthParts) -> None:
        self._health = health

    async def rows(self, call: OperationCall) -> Answer:
        """Show the sessions of the tenant that run here, one row each."""
        async with self._health.tree.listening(call.who.tenant, rows_query(call)) as listener:
            return call.view_answer(listener.rows)

    async def trouble(self, call: OperationCall) -> Answer:
        """List what went wrong in the sessions of the tenant, the newest first."""
        query = call.query(TroubleQuery)
        await trio.lowlevel.checkpoint()
        since = self._health.figures.now_ms - HOUR if query.since_ms is None else query.since_ms
        limit = page_of(query.limit)
        newest = self._health.troubles.newest_first(call.who.tenant)
        troubles = tuple(islice(takewhile(lambda trouble: trouble.at_ms >= since, newest), limit + 1))
        return call.view_answer(TroublesView(troubles[:limit], more=len(troubles) > limit))

    async def figures(self, call: OperationCall) -> Answer:
        """Show figures over time: of the user's tenant, or of all and of the host if the user may operate it."""
        query, who = call.query(FiguresQuery), call.who
        since, until = query.since_ms, query.until_ms
        if since is not None and until is not None and since > until:
            raise UsageError("bad-query", call.row.name, "its `since_ms`", "is after its `until_ms`")
        # ids of sessions are of one tenant alone: `operate` shows figures of others, and nothing else of them
        everybody = OPERATE in who.scopes and query.per != "session"
        tenant = None if everybody else who.tenant
        limit = series_limit(query)
        return call.view_answer(await self._health.history.view(query.per, tenant, since, until, limit))


def series_limit(query: FiguresQuery) -> int:
    """Return how many series are shown that *query* asks for."""
    return min(query.limit or SERIES, MOST_SERIES)

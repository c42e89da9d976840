"""Calls for those who watch all sessions of a tenant: the tree as rows, and what went wrong, and figures over time."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Final

import trio

from agentrail.api.bodies import FiguresQuery, TroubleQuery
from agentrail.api.limits import page_of
from agentrail.api.operation_table import OPERATE
from agentrail.api.views import TroublesView
from agentrail.errors import UsageError
from agentrail.host.health.figures_history import HOUR
from agentrail.host.health.health_parts import HealthParts
from agentrail.host.health.tree_feed import rows_query
from agentrail.host.operations.answers import Answer
from agentrail.host.operations.call import OperationCall

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

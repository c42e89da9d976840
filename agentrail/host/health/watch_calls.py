"""Calls for those who watch all sessions of a tenant: the tree as rows, and what went wrong."""

from __future__ import annotations

from itertools import islice, takewhile

import trio

from agentrail.api.bodies import RowsQuery, TroubleQuery
from agentrail.api.views import TroublesView
from agentrail.host.health.tree_feed import TreeFeed
from agentrail.host.health.troubles import Troubles
from agentrail.host.operations.call_request import CallRequest
from agentrail.host.requests.http_messages import HttpResponse
from agentrail.runtime.diagnosis.metrics import Figures

AN_HOUR = 60 * 60 * 1000
"""Milliseconds of an hour."""


class WatchCalls:
    """Carries out the calls that show the sessions of a tenant as rows, and what went wrong in them."""

    def __init__(self, tree: TreeFeed, troubles: Troubles, figures: Figures) -> None:
        self._tree = tree
        self._troubles = troubles
        self._figures = figures

    async def rows(self, request: CallRequest) -> HttpResponse:
        """Show the sessions of the tenant that run here, one row each."""
        query = request.query(RowsQuery)
        async with self._tree.listening(request.who.tenant, query, request.limits) as listener:
            return request.view_answer(listener.rows)

    async def trouble(self, request: CallRequest) -> HttpResponse:
        """List what went wrong in the sessions of the tenant, the newest first."""
        query, limits = request.query(TroubleQuery), request.limits
        await trio.lowlevel.checkpoint()
        since = self._figures.now_ms - AN_HOUR if query.since_ms is None else query.since_ms
        limit = min(query.limit or limits.page, limits.most_page)
        newest = takewhile(lambda trouble: trouble.at_ms >= since, self._troubles.newest_first(request.who.tenant))
        found = tuple(islice(newest, limit + 1))
        return request.view_answer(TroublesView(found[:limit], more=len(found) > limit))

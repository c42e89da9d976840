"""Calls that list what is not of one session: what waits for a decision, and commands."""

from __future__ import annotations

from typing import Final

import trio

from agentrail.app.supervisor import Supervisor
from agentrail.errors import BadQuery, BadRecord, SessionBeingDeleted, SessionNotStored
from agentrail.host.access.identity import Identity
from agentrail.host.answering.call_request import CallRequest
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.http11.http_messages import HttpResponse
from agentrail.host.plugins.command_plugin import commands_for
from agentrail.host.plugins.rows import HostPluginRow
from agentrail.ports.handles.session_values import HeldCall
from agentrail.ports.journal import SessionFilter, StoredSession
from agentrail.runtime.inbox.replies import held_calls
from agentrail.wire.bodies import PageQuery
from agentrail.wire.public_ids import read_internal
from agentrail.wire.views import ApprovalsView, CommandsView, CommandView, HeldView, view

APPROVAL: Final = "approval"
"""The kind of a held call that is to be approved or rejected; a question is answered."""

TENANTS: Final = 200
"""Of how many tenants it is kept what waits in their sessions that do not run; of others it is read again."""

SEPARATOR: Final = "~"
"""Stands in a cursor between since when something waits, and its id."""


class ListingCalls:
    """Carries out the calls that list what is not of one session."""

    def __init__(
        self, rows: HostPluginRow, sessions: HostedSessions, supervisor: Supervisor, *, four_eyes: bool
    ) -> None:
        self._rows = rows
        self._sessions = sessions
        self._supervisor = supervisor
        self._four_eyes = four_eyes
        self._read: dict[str, dict[str, tuple[int, tuple[HeldCall, ...]]]] = {}  # by tenant and session

    async def commands(self, exchange: CallRequest) -> HttpResponse:
        """List the commands of host plugins."""
        await trio.lowlevel.checkpoint()
        found = await commands_for(self._rows, exchange.who)
        return exchange.given(CommandsView(tuple([view(CommandView, command) for command in found])))

    async def approvals(self, exchange: CallRequest) -> HttpResponse:
        """List the held calls and questions of the tenant that the caller may decide about, oldest first."""
        query, limits = exchange.query(PageQuery), exchange.limits
        limit = min(query.limit or limits.page, limits.most_page)
        after = (0, "") if query.after is None else _place(exchange, query.after)
        found = [each for each in await self._waiting(exchange.who.tenant) if self._may_decide(exchange.who, each)]
        rest = sorted([each for each in found if _cursor(each) > after], key=_cursor)
        last = _cursor(rest[limit - 1]) if len(rest) > limit else None
        following = None if last is None else f"{last[0]}{SEPARATOR}{last[1]}"
        return exchange.given(ApprovalsView(tuple(rest[:limit]), following))

    def _may_decide(self, who: Identity, held: HeldView) -> bool:
        """Whether *who*, who may decide in general, may decide about *held*."""
        return not (self._four_eyes and held.kind == APPROVAL and who.user in held.asked_by)

    async def _waiting(self, tenant: str) -> list[HeldView]:
        """Return what waits for a person in the sessions of *tenant*; no session is started or woken for that."""
        stored = await self._sessions.listed(SessionFilter(tenant=tenant, ended=False))
        known = self._read.get(tenant, {})
        now = dict[str, tuple[int, tuple[HeldCall, ...]]]()
        found: list[HeldView] = []
        for each in stored:
            name = read_internal(each.session_id)
            handle = None if name is None else self._sessions.here(name)
            if handle is not None:
                held = handle.status().held
            else:
                last = known.get(each.session_id)
                held = last[1] if last is not None and last[0] == each.head else await self._stored_calls(each)
                now[each.session_id] = each.head, held
            found += [view(HeldView, one, each.session_id) for one in held]
        self._keep(tenant, now)
        return found

    def _keep(self, tenant: str, now: dict[str, tuple[int, tuple[HeldCall, ...]]]) -> None:
        """Keep what was read for *tenant*, as one of the last `TENANTS`."""
        self._read.pop(tenant, None)
        if now:
            self._read[tenant] = now
            if len(self._read) > TENANTS:
                del self._read[next(iter(self._read))]

    async def _stored_calls(self, stored: StoredSession) -> tuple[HeldCall, ...]:
        """Return what waits in a session that does not run here, from its records; nothing if they cannot be read."""
        if stored.problem:
            return ()
        try:
            return held_calls(await self._supervisor.state(stored.session_id))
        except (BadRecord, SessionBeingDeleted, SessionNotStored):
            return ()


def _cursor(held: HeldView) -> tuple[int, str]:
    return held.since, held.id


def _place(exchange: CallRequest, after: str) -> tuple[int, str]:
    """Return the place in the list that a cursor stands for."""
    since, separator, held = after.partition(SEPARATOR)
    if not (separator and since.isascii() and since.isdigit()):
        raise BadQuery(exchange.call.name, "its `after`", "is not the `next` of a page")
    return int(since), held

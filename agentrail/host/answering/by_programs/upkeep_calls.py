"""Calls about one session that only its handle had: its end, labels, queue, rest, and what it may be given."""

from __future__ import annotations

import trio

from agentrail.host.answering.call_request import CallRequest
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.http11.http_messages import HttpResponse
from agentrail.host.profiles import ProfileTable
from agentrail.runtime.handle import SessionHandle
from agentrail.wire.bodies import LabelBody, StopBody, WithdrawBody
from agentrail.wire.call_rows.handle_views import AgentsView, OfferedView, PromptView, QueueView
from agentrail.wire.views import view


class UpkeepCalls:
    """Carries out the calls of handles that are no talk and no decision."""

    def __init__(self, sessions: HostedSessions, profiles: ProfileTable) -> None:
        self._sessions = sessions
        self._profiles = profiles

    async def _session(self, exchange: CallRequest) -> SessionHandle:
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        return (await self._sessions.running(name, exchange.watch)).by(exchange.who.user)

    async def stop(self, exchange: CallRequest) -> HttpResponse:
        """End the session for good."""
        body = await exchange.body(StopBody)
        await (await self._session(exchange)).stop(body.reason, command=exchange.command)
        return exchange.done()

    async def label(self, exchange: CallRequest) -> HttpResponse:
        """Change the labels and the title of the session."""
        body = await exchange.body(LabelBody)
        session = await self._session(exchange)
        await session.label(body.add, body.remove, title=body.title, command=exchange.command)
        return exchange.done()

    async def queued(self, exchange: CallRequest) -> HttpResponse:
        """Show the prompts in the queue; the session is neither started nor woken for that."""
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        queue = (await self._sessions.state(name)).queue
        return exchange.given(QueueView(tuple([view(PromptView, prompt) for prompt in queue])))

    async def withdraw(self, exchange: CallRequest) -> HttpResponse:
        """Remove a prompt from the queue."""
        body = await exchange.body(WithdrawBody)
        await (await self._session(exchange)).withdraw(body.ref, command=exchange.command)
        return exchange.done()

    async def suspend(self, exchange: CallRequest) -> HttpResponse:
        """Let all but urgent commands wait."""
        await (await self._session(exchange)).suspend()
        return exchange.done()

    async def resume(self, exchange: CallRequest) -> HttpResponse:
        """Handle what has waited since the session was suspended."""
        await (await self._session(exchange)).resume()
        return exchange.done()

    async def offered(self, exchange: CallRequest) -> HttpResponse:
        """Show what the session may be given by name."""
        found = await self._sessions.offered(await self._session(exchange))
        return exchange.given(
            OfferedView(*[tuple(sorted(each)) for each in (found.models, found.tools, found.plugins)])
        )

    async def agents(self, exchange: CallRequest) -> HttpResponse:
        """List the names of the profiles."""
        await trio.lowlevel.checkpoint()
        return exchange.given(AgentsView(tuple([profile.id for profile in self._profiles])))

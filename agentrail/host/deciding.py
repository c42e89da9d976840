"""Calls that steer and decide: steer, abort, approve, reject, respond, compact; and the list of what waits."""

from __future__ import annotations

from agentrail.host.exchange import Exchange
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.http11.http_messages import HttpResponse
from agentrail.runtime.handle import SessionHandle
from agentrail.wire.bodies import AbortBody, ApproveBody, CompactBody, RejectBody, RespondBody, SteerBody
from agentrail.wire.views import AcceptedView, view


class Deciding:
    """Carries out the calls by which people steer a session and decide about its calls."""

    def __init__(self, sessions: HostedSessions) -> None:
        self._sessions = sessions

    async def _session(self, exchange: Exchange) -> SessionHandle:
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        return (await self._sessions.running(name)).by(exchange.who.user)

    async def steer(self, exchange: Exchange) -> HttpResponse:
        """Add a text to the open turn."""
        body = await exchange.body(SteerBody)
        session = await self._session(exchange)
        accepted = await session.steer(body.text, when=body.when, command=exchange.command)
        return exchange.given(view(AcceptedView, accepted, session.id))

    async def abort(self, exchange: Exchange) -> HttpResponse:
        """End the open turn."""
        body = await exchange.body(AbortBody)
        session = await self._session(exchange)
        await session.abort(
            body.reason, kill_tools=body.kill_tools, clear_queue=body.clear_queue, command=exchange.command
        )
        return exchange.done()

    async def approve(self, exchange: Exchange) -> HttpResponse:
        """Let a held call run."""
        body = await exchange.body(ApproveBody)
        session = await self._session(exchange)
        await session.approve(
            body.approval, body.args, always=body.always, auto_resume=body.auto_resume, command=exchange.command
        )
        return exchange.done()

    async def reject(self, exchange: Exchange) -> HttpResponse:
        """Refuse a held call."""
        body = await exchange.body(RejectBody)
        session = await self._session(exchange)
        await session.reject(body.approval, body.reason, auto_resume=body.auto_resume, command=exchange.command)
        return exchange.done()

    async def respond(self, exchange: Exchange) -> HttpResponse:
        """Answer a question."""
        body = await exchange.body(RespondBody)
        session = await self._session(exchange)
        await session.respond(body.ref, body.answer, command=exchange.command)
        return exchange.done()

    async def compact(self, exchange: Exchange) -> HttpResponse:
        """Make the context shorter."""
        body = await exchange.body(CompactBody)
        session = await self._session(exchange)
        await session.compact(body.reason, command=exchange.command)
        return exchange.done()

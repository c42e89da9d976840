"""Calls that change the course of a session: abort, approve, reject, respond, compact, another model."""

from __future__ import annotations

from typing import Final

from agentrail.errors import BadOptions
from agentrail.host.answering.call_request import CallRequest
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.http11.http_messages import HttpResponse
from agentrail.runtime.handle import SessionHandle
from agentrail.wire.bodies import AbortBody, ApproveBody, CompactBody, ModelBody, RejectBody, RespondBody

OWN_PARAMETERS: Final = frozenset({"self", "model", "command"})
"""Names that `SessionHandle.switch_model` has for itself, so that no option can have them."""


class SteeringCalls:
    """Carries out the calls by which people steer a session and decide about its calls."""

    def __init__(self, sessions: HostedSessions) -> None:
        self._sessions = sessions

    async def _session(self, exchange: CallRequest) -> SessionHandle:
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        return (await self._sessions.running(name)).by(exchange.who.user)

    async def abort(self, exchange: CallRequest) -> HttpResponse:
        """End the open turn."""
        body = await exchange.body(AbortBody)
        session = await self._session(exchange)
        await session.abort(
            body.reason, kill_tools=body.kill_tools, clear_queue=body.clear_queue, command=exchange.command
        )
        return exchange.done()

    async def approve(self, exchange: CallRequest) -> HttpResponse:
        """Let a held call run."""
        body = await exchange.body(ApproveBody)
        session = await self._session(exchange)
        await session.approve(
            body.approval, body.args, always=body.always, auto_resume=body.auto_resume, command=exchange.command
        )
        return exchange.done()

    async def reject(self, exchange: CallRequest) -> HttpResponse:
        """Refuse a held call."""
        body = await exchange.body(RejectBody)
        session = await self._session(exchange)
        await session.reject(body.approval, body.reason, auto_resume=body.auto_resume, command=exchange.command)
        return exchange.done()

    async def respond(self, exchange: CallRequest) -> HttpResponse:
        """Answer a question."""
        body = await exchange.body(RespondBody)
        session = await self._session(exchange)
        await session.respond(body.ref, body.answer, command=exchange.command)
        return exchange.done()

    async def compact(self, exchange: CallRequest) -> HttpResponse:
        """Make the context shorter."""
        body = await exchange.body(CompactBody)
        session = await self._session(exchange)
        await session.compact(body.reason, command=exchange.command)
        return exchange.done()

    async def switch_model(self, exchange: CallRequest) -> HttpResponse:
        """Use another model, or a chain of them, from the next turn on."""
        body = await exchange.body(ModelBody)
        session = await self._session(exchange)
        model = body.model if isinstance(body.model, str) else list(body.model)
        taken = OWN_PARAMETERS & body.options.keys()
        if taken:
            raise BadOptions(str(model), f"there is no option {' and '.join([f'`{name}`' for name in sorted(taken)])}")
        await session.switch_model(model, command=exchange.command, **body.options)
        return exchange.done()

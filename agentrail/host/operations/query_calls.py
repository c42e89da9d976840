"""`QueryCalls`: carries out the calls that show the queue of a session, what it may be given, and the profiles."""

from __future__ import annotations

import trio

from agentrail.api.views import AgentsView, IdentityView, OfferedView, PromptView, QueueView, view
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.call_request import CallRequest, running_session
from agentrail.host.profiles import ProfileTable
from agentrail.host.requests.http_messages import HttpResponse


class QueryCalls:
    """Carries out calls that change nothing: list a queue, what a session may be given, the profiles, the user."""

    def __init__(self, sessions: HostedSessions, profiles: ProfileTable) -> None:
        self._sessions = sessions
        self._profiles = profiles

    async def queued(self, request: CallRequest) -> HttpResponse:
        """Show the prompts in the queue; the session is neither started nor woken for that."""
        name = self._sessions.name(request.call, request.who, request.session)
        queue = (await self._sessions.state(name)).queue
        return request.view_answer(QueueView(tuple([view(PromptView, prompt) for prompt in queue])))

    async def offered(self, request: CallRequest) -> HttpResponse:
        """Show the names of the tools, plugins and models that the session may be given."""
        _, session = await running_session(self._sessions, request)
        offer = await self._sessions.offered(session)
        return request.view_answer(
            OfferedView(*[tuple(sorted(names)) for names in (offer.models, offer.tools, offer.plugins)])
        )

    async def identity(self, request: CallRequest) -> HttpResponse:
        """Show whose the key is."""
        await trio.lowlevel.checkpoint()
        who = request.who
        return request.view_answer(IdentityView(who.tenant, who.user, tuple(sorted(who.scopes))))

    async def agents(self, request: CallRequest) -> HttpResponse:
        """List the names of the profiles."""
        await trio.lowlevel.checkpoint()
        return request.view_answer(AgentsView(tuple([profile.id for profile in self._profiles])))

"""`QueryCalls`: carries out the calls that show the queue of a session, what it may be given, and the profiles."""

from __future__ import annotations

from collections.abc import Iterator

import trio

from agentrail.api.views import AgentsView, IdentityView, OfferedView, OptionView, PromptView, QueueView, view
from agentrail.core.vocabulary.state import State
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.answers import Answer
from agentrail.host.operations.call import Call, running_session
from agentrail.host.operations.command_calls import is_of_the_program
from agentrail.host.profiles import Offered, ProfileTable


def _options(state: State, offer: Offered) -> Iterator[OptionView]:
    """Yield the options that clients may change, with their values."""
    for plugin in state.plugins:
        for name in offer.options.get(plugin.key, ()):
            yield OptionView(plugin.key, name, plugin.options.get(name))
    for name, value in state.model_options.items():
        if not is_of_the_program({name: value}):
            yield OptionView("", name, value)


class QueryCalls:
    """Carries out calls that change nothing: list a queue, what a session may be given, the profiles, the user."""

    def __init__(self, sessions: HostedSessions, profiles: ProfileTable) -> None:
        self._sessions = sessions
        self._profiles = profiles

    async def queued(self, call: Call) -> Answer:
        """Show the prompts in the queue; the session is neither started nor woken for that."""
        name = self._sessions.name(call.row, call.who, call.session)
        queue = (await self._sessions.state(name)).queue
        return call.shown(QueueView(tuple([view(PromptView, prompt) for prompt in queue])))

    async def offered(self, call: Call) -> Answer:
        """Show the names of the tools, plugins and models that the session may be given."""
        _, session = await running_session(self._sessions, call)
        offer = await self._sessions.offered(session)
        models, tools, plugins = [tuple(sorted(names)) for names in (offer.models, offer.tools, offer.plugins)]
        options = tuple(_options(session.inspect(), offer))
        return call.shown(OfferedView(models, tools, plugins, options))

    async def identity(self, call: Call) -> Answer:
        """Show whose the key is."""
        await trio.lowlevel.checkpoint()
        who = call.who
        return call.shown(IdentityView(who.tenant, who.user, tuple(sorted(who.scopes))))

    async def agents(self, call: Call) -> Answer:
        """List the names of the profiles."""
        await trio.lowlevel.checkpoint()
        return call.shown(AgentsView(tuple([profile.id for profile in self._profiles])))
